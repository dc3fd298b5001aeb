"""Rollouts: every episode is played once, whatever happens in between."""

import asyncio
import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.configs import Budget
from contract.events import Failed, Finished, Progress, RolloutFinished, RunCancelled, Started
from contract.messages import Message, ToolSchema
from contract.trajectory import Outcome, Task
from tests.trainer.runs import events_of, kinds_of, run_here
from trainer.environments.office import Office
from trainer.environments.protocol import Transition
from trainer.environments.scripts import Call
from trainer.failures import ExitCode
from trainer.records import read_trajectories
from trainer.rollouts import runner, unfinished
from trainer.rollouts.episode import play
from trainer.rollouts.output import TrajectoryFile, summarize
from trainer.rollouts.policy import PolicyError, ServerAway, Turn
from trainer.rollouts.scripted import call_message
from trainer.rollouts.unfinished import Unfinished


def rollout(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "rollout",
        "policy": {"engine": "scripted", "script": "careless"},
        "tasks": {"count": 12},
        **changes,
    }


def ids(folder: Path) -> list[str]:
    return [trajectory.id for trajectory in read_trajectories(folder / "trajectories.jsonl")]


def test_a_run_writes_trajectories_events_and_a_report(tmp_path: Path):
    assert run_here(tmp_path, rollout(samples=2)) == ExitCode.FINISHED
    events = [line.event for line in events_of(tmp_path)]
    assert isinstance(events[1], Started)
    assert events[1].total_steps == 24
    assert sum(isinstance(event, RolloutFinished) for event in events) == 24
    assert isinstance(events[-1], Finished)
    report = json.loads((tmp_path / "report.json").read_text())
    assert events[-1].report == report
    assert (report["episodes"], report["success"]["n"], report["policy"]) == (24, 24, "careless")
    trajectory = next(iter(read_trajectories(tmp_path / "trajectories.jsonl")))
    assert trajectory.task.held_out
    assert trajectory.tools == Office().tools
    assert trajectory.outcome.termination == "done"
    assert [message["role"] for message in trajectory.messages()[:4]] == ["system", "user", "assistant", "tool"]


def test_an_episode_is_stored_before_its_viewers_are_told_of_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    delete, stored = Unfinished.__exit__, []

    def count_first(unfinished: Unfinished, *raised: object) -> None:
        stored.append(len(ids(tmp_path)))
        delete(unfinished, *raised)

    monkeypatch.setattr(Unfinished, "__exit__", count_first)
    run_here(tmp_path, rollout(parallel=1))
    assert stored == list(range(1, 13))


def test_a_restarted_episode_keeps_its_viewers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unfinished, "EVERY_SECONDS", 0)
    snapshots: list[int] = []

    async def once_away(*arguments: Any, **options: Any) -> Any:
        snapshots.append(len(list((tmp_path / unfinished.FOLDER).iterdir())))
        played = await play(*arguments, **options)
        if len(snapshots) == 1:
            raise ServerAway("It died")
        return played

    monkeypatch.setattr(runner, "play", once_away)
    assert run_here(tmp_path, rollout(tasks={"count": 1})) == ExitCode.FINISHED
    assert snapshots == [0, 1]
    assert len(ids(tmp_path)) == 1


def test_the_same_config_gives_the_same_trajectories(tmp_path: Path):
    chats = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run_here(tmp_path / name, rollout(parallel=1 if name == "a" else 8))
        rollouts = read_trajectories(tmp_path / name / "trajectories.jsonl")
        chats.append({trajectory.id: json.dumps(trajectory.messages()) for trajectory in rollouts})
    assert chats[0] == chats[1]


def test_a_resumed_run_plays_only_what_is_missing(tmp_path: Path):
    run_here(tmp_path, rollout())
    path = tmp_path / "trajectories.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5]) + lines[5][:100])  # killed while writing the sixth
    assert run_here(tmp_path, rollout()) == ExitCode.FINISHED
    assert len(ids(tmp_path)) == len(set(ids(tmp_path))) == 12
    starts = [line.event for line in events_of(tmp_path) if isinstance(line.event, Started)]
    assert [(start.step, start.total_steps) for start in starts] == [(0, 12), (5, 12)]


def test_a_finished_run_has_nothing_left_to_play(tmp_path: Path):
    run_here(tmp_path, rollout())
    before = (tmp_path / "trajectories.jsonl").read_bytes()
    assert run_here(tmp_path, rollout()) == ExitCode.FINISHED
    assert (tmp_path / "trajectories.jsonl").read_bytes() == before


def test_a_stop_request_keeps_what_is_done_and_a_second_run_ends_it(tmp_path: Path):
    many = rollout(tasks={"count": 40}, parallel=1)
    code = run_here(tmp_path, many, stop_on=lambda event: isinstance(event, Progress) and event.step == 7)
    assert code == ExitCode.CANCELLED
    done = len(ids(tmp_path))
    assert 7 <= done < 40
    assert isinstance(events_of(tmp_path)[-1].event, RunCancelled)
    assert run_here(tmp_path, many) == ExitCode.FINISHED
    assert len(set(ids(tmp_path))) == 40


def test_tasks_may_come_from_a_file(tmp_path: Path):
    task = {"key": "mine", "instruction": "Say hello.", "environment": "office", "success_check": {"goals": []}}
    state = {"people": [], "files": [], "mails": [], "calendar": {}}
    (tmp_path / "tasks.jsonl").write_text(json.dumps({**task, "initial_state": state}) + "\n")
    assert run_here(tmp_path, rollout(tasks={"file": "tasks.jsonl"})) == ExitCode.FINISHED
    assert ids(tmp_path) == ["careless:mine#0"]


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"tasks": {"file": "none.jsonl"}}, ExitCode.DATA, "There is no data file"),
        ({"tasks": {"environment": "moon"}}, ExitCode.CONFIG, "environment: got 'moon', expected 'code' or 'office'"),
        ({"tasks": {"levels": ["L9"]}}, ExitCode.CONFIG, "tasks.levels: got 'L9', expected some of L1, L2, L3"),
        ({"policy": {"engine": "scripted", "script": "lazy"}}, ExitCode.CONFIG, "policy.script: got 'lazy', expected"),
        ({"polcy": {}}, ExitCode.CONFIG, "polcy: unknown field"),
    ],
)
def test_what_cannot_run_is_refused_by_name(tmp_path: Path, changes: Any, code: ExitCode, message: str):
    assert run_here(tmp_path, rollout(**changes)) == code
    last = events_of(tmp_path)[-1].event
    assert isinstance(last, Failed)
    assert message in last.message
    assert kinds_of(tmp_path)[-1] == "failed"


class Repeating:
    """Repeats the same turn forever."""

    def __init__(self, turn: Turn | PolicyError) -> None:
        self.turn = turn

    async def act(self, chat: list[Message], tools: list[ToolSchema], *, max_tokens: int) -> Turn:
        if isinstance(self.turn, PolicyError):
            raise self.turn
        return self.turn


def a_task() -> Task:
    return next(iter(Office.tasks(levels=("L1",), split="train", seed=0)))


LOOKUP = call_message(Call("find_contact", {"name": "Nobody"}), "c1")


@pytest.mark.parametrize(
    ("turn", "budget", "termination", "steps"),
    [
        (Turn(LOOKUP), Budget(steps=3), "max_steps", 3),
        (Turn(LOOKUP, completion_tokens=40), Budget(tokens=100), "max_tokens", 3),
        (Turn(LOOKUP), Budget(seconds=1e-9), "timeout", 0),
        (PolicyError("the server hung up"), Budget(), "policy_error", 0),
        (Turn({"role": "assistant", "content": "Done."}), Budget(), "done", 1),
    ],
)
async def test_what_ended_the_episode_is_recorded(turn: Any, budget: Budget, termination: str, steps: int):
    trajectory = await play(Office(), a_task(), Repeating(turn), budget)
    assert (trajectory.outcome.termination, len(trajectory.steps)) == (termination, steps)
    assert trajectory.outcome.success is False
    assert trajectory.messages()[0]["role"] == "system"


async def test_a_call_that_cannot_be_read_is_told_to_the_policy():
    turn = Turn({"role": "assistant", "content": "<tool_call>{"}, error="it is no JSON")
    trajectory = await play(Office(), a_task(), Repeating(turn), Budget(steps=2))
    assert [step.error for step in trajectory.steps] == ["it is no JSON", "it is no JSON"]
    assert trajectory.steps[1].context[0]["role"] == "user"
    assert "could not be read: it is no JSON" in trajectory.steps[1].context[0]["content"]


class Broken(Office):
    """An office environment with a bug: a tool raises an unexpected exception."""

    def step(self, action: Message) -> Transition:
        raise KeyError("desk")


async def test_an_environment_that_breaks_ends_its_episode_and_is_kept():
    trajectory = await play(Broken(), a_task(), Repeating(Turn(LOOKUP)), Budget())
    assert trajectory.outcome == Outcome(reward=None, success=None, termination="environment_error")
    assert trajectory.info["environment_error"].startswith("KeyError: 'desk' (step, line ")
    assert [step.message for step in trajectory.steps] == [LOOKUP]
    assert trajectory.steps[0].error == trajectory.info["environment_error"]


async def test_an_environment_that_breaks_does_not_count_as_a_failure_of_the_policy(tmp_path: Path):
    broken = await play(Broken(), a_task(), Repeating(Turn(LOOKUP)), Budget())
    failed = await play(Office(), a_task(), Repeating(Turn({"role": "assistant", "content": "Done."})), Budget())
    output = TrajectoryFile(tmp_path / "trajectories.jsonl")
    for trajectory in (broken, failed, replace(failed, outcome=Outcome(1.0, True, "done"))):
        output.append(trajectory)
    output.close()
    report = summarize(output.path)
    assert (report["episodes"], report["success"]["value"], report["success"]["n"]) == (3, 0.5, 2)
    assert report["success_by_level"][a_task().difficulty]["n"] == 2
    assert report["mean_reward"] == (failed.outcome.reward + 1.0) / 2
    assert report["terminations"] == {"done": 2, "environment_error": 1}


class Stuck(Office):
    """Waits for a process that never responds."""

    waits = True

    def step(self, action: Message) -> Transition:
        time.sleep(20)
        return super().step(action)


async def test_an_environment_that_does_not_answer_runs_into_the_budget():
    trajectory = await play(Stuck(), a_task(), Repeating(Turn(LOOKUP)), Budget(seconds=0.3))
    assert (trajectory.outcome.termination, len(trajectory.steps)) == ("timeout", 1)
    assert trajectory.steps[0].error == "the environment did not answer in time"


def test_a_cancel_does_not_wait_for_an_environment_that_does_not_answer():
    async def cancelled() -> None:
        episode = asyncio.create_task(play(Stuck(), a_task(), Repeating(Turn(LOOKUP)), Budget()))
        await asyncio.sleep(0.2)
        episode.cancel()
        await asyncio.wait([episode])
        assert episode.cancelled()

    began = time.monotonic()
    asyncio.run(cancelled())
    assert time.monotonic() - began < 10


async def test_environments_that_wait_do_not_hold_up_each_other():
    all_wait = threading.Barrier(4, timeout=20)

    class Waiting(Office):
        waits = True

        def step(self, action: Message) -> Transition:
            all_wait.wait()
            return super().step(action)

    played = await asyncio.gather(
        *(play(Waiting(), a_task(), Repeating(Turn(LOOKUP)), Budget(steps=2)) for _ in range(4))
    )
    assert [trajectory.outcome.termination for trajectory in played] == ["max_steps"] * 4
