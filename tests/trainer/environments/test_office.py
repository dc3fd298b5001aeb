"""The office environment: reproducible for a seed, judged by its final state, and without shortcuts that work."""

import asyncio
import json
from itertools import islice
from typing import Any

import pytest

from contract.configs import Budget, ScriptedPolicy
from contract.messages import Message
from contract.trajectory import Task, Trajectory
from trainer.environments.office import Office
from trainer.environments.office.tasks import LEVELS
from trainer.environments.protocol import Score
from trainer.rollouts.episode import play
from trainer.rollouts.scripted import ScriptedEngine

WORLD = {
    "people": [
        {"name": "Mia", "team": "legal", "address": "mia11@office.test"},
        {"name": "Mia", "team": "sales", "address": "mia22@office.test"},
    ],
    "files": [
        {"file": "f10", "name": "budget", "status": "draft", "text": "Draft."},
        {"file": "f20", "name": "budget", "status": "final", "text": "Final."},
    ],
    "mails": [
        {"mail": "m30", "sender": "Omar", "subject": "invoice", "text": "One.", "folder": "inbox"},
        {"mail": "m40", "sender": "Omar", "subject": "invoice", "text": "Two.", "folder": "inbox"},
        {"mail": "m50", "sender": "Omar", "subject": "photos", "text": "Three.", "folder": "inbox"},
    ],
    "calendar": {"Monday": [{"event": "call", "hour": 9}, {"event": "free", "hour": 10}]},
}
SHARE = {
    "goal": "file_sent",
    "name": "budget",
    "status": "final",
    "person": "Mia",
    "team": "sales",
    "address": "mia22@office.test",
    "file": "f20",
}
ARCHIVE = {"goal": "mails_archived", "sender": "Omar", "subject": "invoice", "mails": ["m30", "m40"]}
BOOK = {"goal": "meeting_booked", "person": "Mia", "team": "sales", "address": "mia22@office.test", "day": "Monday"}


def office(*goals: dict[str, Any]) -> Office:
    environment = Office()
    environment.reset(
        Task(key="t", instruction="Do it.", initial_state=WORLD, success_check={"goals": list(goals)}),
    )
    return environment


def call(tool: str, **arguments: object) -> Message:
    function = {"name": tool, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


def answer(environment: Office, tool: str, **arguments: object) -> Any:
    (message,) = environment.step(call(tool, **arguments)).observation
    return json.loads(message["content"])


def first_tasks(count: int, **choice: Any) -> list[Task]:
    return list(islice(Office.tasks(**{"levels": LEVELS, "split": "train", "seed": 0, **choice}), count))


def played(task: Task, script: str, seed: int = 0) -> Trajectory:
    agent = ScriptedEngine(ScriptedPolicy(script=script), Office).begin(task, seed)
    return asyncio.run(play(Office(), task, agent, Budget()))


def test_a_task_opens_with_the_system_message_and_the_instruction():
    opening = Office().reset(Task(key="t", instruction="Do it.", initial_state=WORLD, success_check={"goals": []}))
    assert [message["role"] for message in opening] == ["system", "user"]
    assert opening[1]["content"] == "Do it."


def test_lookups_give_ids_and_nothing_more():
    environment = office(SHARE)
    assert answer(environment, "find_files", name="budget") == [
        {"status": "draft", "file": "f10"},
        {"status": "final", "file": "f20"},
    ]
    assert answer(environment, "find_contact", name="mia") == [
        {"team": "legal", "address": "mia11@office.test"},
        {"team": "sales", "address": "mia22@office.test"},
    ]
    assert answer(environment, "search_mail", sender="Omar")[2] == {"subject": "photos", "mail": "m50"}
    assert answer(environment, "find_files", name="budget", status="Final") == [{"status": "final", "file": "f20"}]
    assert answer(environment, "find_contact", name="Mia", team="sales")[0]["address"] == "mia22@office.test"
    assert answer(environment, "search_mail", sender="Omar", subject="photos") == [{"subject": "photos", "mail": "m50"}]
    assert answer(environment, "read_agenda", day="Monday")[1] == {"event": "free", "hour": 10}
    assert answer(environment, "read_file", file="f20") == {"name": "budget", "status": "final", "text": "Final."}
    assert answer(environment, "read_mail", mail="m50")["text"] == "Three."


def test_reaching_the_goal_is_rewarded_once_and_a_message_without_calls_ends_it():
    environment = office(SHARE)
    sent = environment.step(call("send_file", file="f20", address="mia22@office.test"))
    assert (sent.reward, sent.done) == (1.0, False)
    assert sent.info["subgoals"] == {"send f20": True}
    last = environment.step({"role": "assistant", "content": "Done."})
    assert (last.reward, last.done, last.observation) == (0.0, True, [])
    assert environment.score().success


def test_saying_done_is_not_doing():
    environment = office(SHARE)
    environment.step({"role": "assistant", "content": "Done: budget sent."})
    assert environment.score() == Score(0.0, False, {"send f20": False})


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("send_file", {"file": "f10", "address": "mia22@office.test"}),  # the draft
        ("send_file", {"file": "f20", "address": "mia11@office.test"}),  # the namesake
        ("move_mail", {"mail": "m30", "folder": "trash"}),  # not requested
        ("book_meeting", {"day": "Monday", "hour": 10, "address": "mia22@office.test"}),
    ],
)
def test_what_nobody_asked_for_costs_and_undoes_success(tool: str, arguments: dict[str, Any]):
    environment = office(SHARE)
    assert environment.step(call(tool, **arguments)).reward == -1.0
    environment.step(call("send_file", file="f20", address="mia22@office.test"))
    assert environment.score() == Score(0.0, False, {"send f20": True})


def test_doing_it_twice_is_one_time_too_many():
    environment = office(SHARE)
    for _ in range(2):
        environment.step(call("send_file", file="f20", address="mia22@office.test"))
    assert not environment.score().success


def test_subgoals_are_checked_one_by_one():
    environment = office(ARCHIVE)
    assert environment.step(call("move_mail", mail="m30", folder="archive")).reward == 0.5
    assert environment.score() == Score(0.5, False, {"archive m30": True, "archive m40": False})
    assert environment.step(call("move_mail", mail="m40", folder="archive")).reward == 0.5
    assert environment.score().success


def test_any_free_hour_will_do_and_a_busy_one_will_not():
    free, busy = office({**BOOK, "hours": [10]}), office({**BOOK, "hours": [10]})
    free.step(call("book_meeting", day="Monday", hour=10, address="mia22@office.test"))
    busy.step(call("book_meeting", day="Monday", hour=9, address="mia22@office.test"))
    assert (free.score().success, busy.score().success) == (True, False)


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (call("find_files", name="budgets"), "no file is called 'budgets'"),
        (call("find_files", name="budget", status="lost"), "no file is called 'budget' and is 'lost'"),
        (call("send_file", file="f99", address="mia22@office.test"), "there is no file 'f99'"),
        (call("send_file", file="f20", address="mia@office.test"), "the address 'mia@office.test' is unknown"),
        (call("book_meeting", day="Monday", hour=3, address="mia22@office.test"), "hour must be from 9 to 16, got 3"),
        (call("move_mail", mail="m30", folder="attic"), 'folder must be one of inbox, archive, trash, got "attic"'),
        (call("delete_everything"), "there is no tool 'delete_everything'"),
        ({"role": "assistant", "tool_calls": [{"id": "c1"}]}, "there is no tool None"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": ["x"]}}]}, "there is no tool ['x']"),
    ],
)
def test_a_failed_call_is_an_observation(action: Message, error: str):
    transition = office(SHARE).step(action)
    assert error in transition.info["error"]
    assert json.loads(transition.observation[0]["content"])["error"] == transition.info["error"]
    assert (transition.done, transition.reward) == (False, 0.0)


def test_several_calls_in_one_message_are_answered_in_order():
    action = call("find_files", name="budget")
    action["tool_calls"].append({"id": "c2", "function": {"name": "find_contact", "arguments": '{"name": "Mia"}'}})
    observation = office(SHARE).step(action).observation
    assert [message["tool_call_id"] for message in observation] == ["c1", "c2"]


def test_an_episode_leaves_the_task_as_it_was():
    before = json.dumps(WORLD)
    office(ARCHIVE).step(call("move_mail", mail="m30", folder="archive"))
    assert json.dumps(WORLD) == before


def test_the_same_seed_draws_the_same_tasks_and_another_seed_draws_others():
    assert first_tasks(30) == first_tasks(30)
    assert first_tasks(30)[0] != first_tasks(30, seed=1)[0]


def test_levels_come_in_turn_and_keys_are_unique():
    tasks = first_tasks(60) + first_tasks(60, seed=1) + first_tasks(60, split="held_out")
    assert [task.difficulty for task in tasks[:4]] == ["L1", "L2", "L3", "L1"]
    assert len({task.key for task in tasks}) == 180


def requests(task: Task) -> set[tuple[str, ...]]:
    """Who is to get what: training and held-out tasks must differ in this."""
    words = ("name", "subject", "day"), ("sender", "person")
    return {
        (goal["goal"], *(next(goal[key] for key in keys if key in goal) for keys in words))
        for goal in task.success_check["goals"]
    }


def test_no_held_out_task_asks_for_what_a_train_task_asks_for():
    train = set().union(*(requests(task) for task in first_tasks(3000)))
    held_out = set().union(*(requests(task) for task in first_tasks(1000, split="held_out")))
    assert len(train) > 300
    assert len(held_out) > 80
    assert not train & held_out


def test_the_expert_always_succeeds_in_three_to_eight_steps():
    trajectories = [played(task, "expert") for task in first_tasks(150)]
    assert all(trajectory.outcome.success for trajectory in trajectories)
    assert {len(trajectory.steps) for trajectory in trajectories} <= {3, 4, 5, 6, 7, 8}


def test_shortcuts_fail_about_as_often_as_they_are_taken():
    hasty = [played(task, "hasty", seed=index) for index, task in enumerate(first_tasks(150))]
    careless = [played(task, "careless", seed=index) for index, task in enumerate(first_tasks(150))]
    share = [sum(bool(t.outcome.success) for t in trajectories) / 150 for trajectories in (hasty, careless)]
    assert 0.2 < share[0] < 0.5 < share[1] < 0.85
    assert any(step.error for trajectory in careless for step in trajectory.steps)


def test_scripts_are_deterministic_by_seed():
    task = first_tasks(3)[2]
    chats = [json.dumps(played(task, "careless", seed=seed).messages()) for seed in (1, 1, 2, 3, 4, 5)]
    assert chats[0] == chats[1]
    assert len(set(chats)) > 1
