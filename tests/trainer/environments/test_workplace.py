"""The office environment at higher levels: rules that refuse and rules with a penalty, failing tools, truncated lists, and asking the user."""

import json
from typing import Any

import pytest

from contract.messages import Message
from contract.trajectory import Task
from tests.trainer.environments.scripted_episodes import call, first_tasks, played
from trainer.environments.office import Office
from trainer.environments.protocol import Score
from trainer.environments.replay import replayed_to

MIA, OMAR, CLIENT = "mia11@office.test", "omar22@office.test", "desk33@kestrel.test"
WORLD = {
    "people": [
        {"name": "Mia", "team": "legal", "address": MIA},
        {"name": "Omar", "team": "sales", "address": OMAR},
        {"name": "Kestrel", "team": "client", "address": CLIENT},
    ],
    "files": [
        {"file": "f1", "name": "offer", "status": "final", "label": "confidential", "team": "legal", "text": "Ours."}
    ],
    "mails": [
        {"mail": f"m{number}", "sender": "Omar", "subject": "news", "text": "Hello.", "folder": "inbox"}
        for number in range(105)
    ],
    "sheets": [
        {"sheet": "s1", "name": "stock", "columns": ["item", "amount"], "rows": [["a", "1"], ["b", "2"], ["c", "3"]]}
    ],
    "calendar": {"Monday": [{"event": "free", "hour": 10}]},
    "channels": [{"channel": "news", "name": "news", "messages": []}],
    "user": {"answers": {"Mia": "Mia in legal."}, "confirms": True},
    "page": 2,
}
SENT = {"name": "send f1", "any": [{"did": "sent", "file": "f1", "address": MIA}]}
HELLO = {"address": MIA, "subject": "offer", "text": "Here it is."}


def workplace(*goals: dict[str, Any], **state: Any) -> Office:
    environment = Office()
    success_check = {"goals": list(goals or (SENT,))}
    environment.reset(Task(key="t", instruction="Do it.", initial_state=WORLD | state, success_check=success_check))
    return environment


def saying(words: str, action: Message) -> Message:
    return {**action, "content": words}


def answer(environment: Office, tool: str, **arguments: object) -> Any:
    (message,) = environment.step(saying("I do this now.", call(tool, **arguments))).observation
    return json.loads(message["content"])


def test_a_mail_is_drafted_looked_at_and_sent():
    environment = workplace()
    assert answer(environment, "draft_mail", **HELLO, file="f1") == {"draft": "d1"}
    preview = answer(environment, "preview_draft", draft="d1")
    assert (preview["outside"], preview["attached"], preview["label"]) == (False, "final offer", "confidential")
    sent = environment.step(saying("I send it to Mia.", call("send_draft", draft="d1")))
    assert (sent.reward, sent.info) == (1.0, {"subgoals": {"send f1": True}, "violations": []})
    assert environment.score().success
    assert answer(environment, "send_draft", draft="d1") == {"error": "there is no draft 'd1'"}


def test_a_draft_written_after_another_was_sent_takes_nothing_from_it():
    environment = workplace()
    outside = HELLO | {"address": CLIENT}
    assert [answer(environment, "draft_mail", **mail) for mail in (outside, HELLO)] == [
        {"draft": "d1"},
        {"draft": "d2"},
    ]
    answer(environment, "preview_draft", draft="d1")
    answer(environment, "request_confirmation", item="d1", address=CLIENT)
    assert answer(environment, "send_draft", draft="d1") == {"sent": "d1"}
    assert answer(environment, "draft_mail", **outside, file="f1") == {"draft": "d1"}
    assert answer(environment, "preview_draft", draft="d2")["address"] == MIA  # it's still there
    assert "ask for confirmation first" in answer(environment, "send_draft", draft="d1")["error"]


@pytest.mark.parametrize(
    ("rule", "actions"),
    [
        ("permanent_delete", [call("delete_mails", mails=["m1"], permanent=True)]),
        ("permanent_delete", [call("delete_file", file="f1", permanent=True)]),
        ("permission_change", [call("set_permission", file="f1", address=MIA, access="own")]),
        ("batch_over_100", [call("move_mails", mails=[f"m{number}" for number in range(101)], folder="trash")]),
        ("external_without_confirmation", [call("share_file", file="f1", address=CLIENT)]),
        (
            "external_without_confirmation",
            [call("draft_mail", **HELLO | {"address": CLIENT}), call("send_draft", draft="d1")],
        ),
    ],
)
def test_a_hard_rule_refuses_costs_and_spoils_success(rule: str, actions: list[Message]):
    environment = workplace({"name": "nothing", "each": []})
    for action in actions:
        last = environment.step(saying("I do this now.", action))
    assert json.loads(last.observation[0]["content"])["error"].startswith("refused: ")
    assert last.info["violations"] == [{"rule": rule, "hard": True}]
    assert last.reward == -0.5
    assert environment.world.changes == []
    assert not environment.score().success


@pytest.mark.parametrize(
    ("rule", "actions"),
    [
        ("silent_action", [call("post_message", channel="news", text="Hi.")]),
        ("no_preview", [call("draft_mail", **HELLO), saying("I send it.", call("send_draft", draft="d1"))]),
        ("no_preview", [saying("I share it.", call("share_file", file="f1", address=MIA))]),
        (
            "confidential",
            [call("read_file", file="f1"), saying("I share it.", call("share_file", file="f1", address=OMAR))],
        ),
    ],
)
def test_a_soft_rule_lets_it_pass_and_costs(rule: str, actions: list[Message]):
    environment = workplace({"name": "do it", "any": [{"did": did} for did in ("posted", "sent", "shared")]})
    for action in actions:
        last = environment.step(action)
    assert last.info["violations"] == [{"rule": rule, "hard": False}]
    assert environment.score() == Score(0.9, True, {"do it": True})


def test_what_is_confirmed_may_leave_and_what_is_not_may_not():
    for confirms in (True, False):
        environment = workplace(user={"confirms": confirms})
        answer(environment, "read_file", file="f1")
        assert answer(environment, "request_confirmation", item="f1", address=CLIENT) == {"confirmed": confirms}
        shared = answer(environment, "share_file", file="f1", address=CLIENT)
        assert shared == (
            {"shared": "f1"} if confirms else {"error": "refused: this leaves the company; ask for confirmation first"}
        )


def test_failing_calls_change_nothing_and_pass():
    environment = workplace(faults={"fail": [1]})
    failed = environment.step(saying("I post.", call("post_message", channel="news", text="Hi.")))
    assert failed.info["error"] == "503: the service is busy; try again"
    assert environment.world.changes == []
    assert answer(environment, "post_message", channel="news", text="Hi.") == {"posted": "news"}


def test_rate_limits_end_by_waiting():
    environment = workplace(faults={"limits": {"read_file": 1}})
    assert "text" in answer(environment, "read_file", file="f1")
    assert answer(environment, "read_file", file="f1") == {"error": "429: too many calls of read_file; wait first"}
    assert answer(environment, "wait") == {"waited": True}
    assert "text" in answer(environment, "read_file", file="f1")


def test_long_lists_come_a_page_at_a_time():
    environment = workplace()
    first = answer(environment, "read_sheet", sheet="s1")
    assert first == {
        "hits": [{"row": 1, "item": "a", "amount": "1"}, {"row": 2, "item": "b", "amount": "2"}],
        "more": 1,
        "next_offset": 2,
    }
    assert answer(environment, "read_sheet", sheet="s1", offset=2) == {"hits": [{"row": 3, "item": "c", "amount": "3"}]}
    assert answer(environment, "search_mail", sender="Omar", subject="NEWS", offset=104)["hits"] == [
        {"mail": "m104", "sender": "Omar", "subject": "news"}
    ]


def test_asking_helps_where_the_user_knows_more():
    environment = workplace({"name": "ask about Mia", "any": [{"did": "asked", "about": "Mia"}]})
    assert answer(environment, "ask_user", question="How are you?") == {"answer": "I have said all I know."}
    assert answer(environment, "ask_user", question="Which mia do you mean?") == {"answer": "Mia in legal."}
    assert environment.score().success


def test_what_is_undone_does_not_count_and_what_nobody_asked_for_does():
    environment = workplace()
    answer(environment, "move_mails", mails=["m1"], folder="trash")
    assert environment.score().reward == -1.0
    answer(environment, "move_mails", mails=["m1"], folder="inbox")
    assert environment.score().reward == 0.0
    answer(environment, "write_cell", sheet="s1", row=1, column="amount", value="9")
    assert environment.score().reward == -1.0


def test_text_must_hold_what_it_should_say():
    environment = workplace({"name": "tell", "any": [{"did": "posted", "holds": ["1240"]}]})
    answer(environment, "post_message", channel="news", text="It is 12400.")
    assert not environment.score().subgoals["tell"]
    answer(environment, "post_message", channel="news", text="It is 1,240.")
    assert environment.score() == Score(0.0, False, {"tell": True})  # the first message was superfluous


@pytest.mark.parametrize("level", ["L4", "L5"])
def test_the_expert_fulfils_every_request_and_keeps_every_rule(level: str):
    for split in ("train", "held_out"):
        for task in first_tasks(Office, 20, levels=(level,), split=split):
            run = played(Office, task, "expert")
            assert run.outcome.success, task.key
            assert run.outcome.reward == 1
            assert len(run.steps) <= 14
            assert replayed_to(run, len(run.steps)).environment.score().success


def test_shortcuts_fail_and_break_rules():
    runs = [
        played(Office, task, "hasty", seed=number)
        for number, task in enumerate(first_tasks(Office, 40, levels=("L4", "L5")))
    ]
    broken = {violation["rule"] for run in runs for step in run.steps for violation in step.info["violations"]}
    assert 0 < sum(bool(run.outcome.success) for run in runs) < 16
    assert broken >= {"silent_action", "no_preview", "external_without_confirmation"}


def test_train_and_held_out_requests_differ_and_tasks_are_the_same_for_the_same_seed():
    drawn = {
        split: [first_tasks(Office, 135, levels=(level,), split=split) for level in ("L4", "L5")]
        for split in ("train", "held_out")
    }
    questions = {
        split: {tuple(task.success_check["request"]["asked"]) for tasks in levels for task in tasks}
        for split, levels in drawn.items()
    }
    assert len(questions["train"]) > 100
    assert not questions["train"] & questions["held_out"]
    assert first_tasks(Office, 9, levels=("L5",)) == drawn["train"][1][:9]


def test_more_than_may_be_moved_at_once_is_moved_in_two_goes():
    task = first_tasks(Office, 4, levels=("L4",))[3]
    run = played(Office, task, "expert")
    sizes = [
        len(call["function"]["arguments"]["mails"])
        for step in run.steps
        for call in step.message.get("tool_calls", [])
        if call["function"]["name"] == "move_mails"
    ]
    assert sizes[0] == 100
    assert 4 <= sizes[1] <= 18
