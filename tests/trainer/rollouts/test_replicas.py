"""Servers that die during rollouts: distinguished from failures of the policy, and never counted as such."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.events import Failed, Finished, Warned
from tests.trainer.rollouts.openai_like import Server, looks_up_then_stops, server_run, trajectories
from tests.trainer.runs import events_of, run_here
from trainer.failures import ExitCode
from trainer.rollouts import replicas
from trainer.rollouts import server as server_module


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(server_module, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(replicas, "CHECK_EVERY_SECONDS", 0.01)
    with Server() as running:
        yield running


def dies_at(server: Server, number: int, *, returns: bool) -> None:
    """The server dies on this request. If `returns`, it's up again at the second request for its models."""

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        if len(server.requests) == number:
            server.is_down = True
            server.looks_until_up = 2 if returns else None
        return 200, looks_up_then_stops(body)

    server.reply = reply


def failure_of(folder: Path) -> Failed:
    last = events_of(folder)[-1].event
    assert isinstance(last, Failed)
    return last


def test_an_episode_that_a_dying_server_takes_along_is_played_again(tmp_path: Path, server: Server):
    dies_at(server, 4, returns=True)  # in the middle of the second episode
    assert run_here(tmp_path, {**server_run(server), "parallel": 1}) == ExitCode.FINISHED
    assert [trajectory.outcome.termination for trajectory in trajectories(tmp_path)] == ["done"] * 3
    report = next(line.event.report for line in events_of(tmp_path) if isinstance(line.event, Finished))
    assert (report["episodes"], report["terminations"]) == (3, {"done": 3})
    [warning] = [line.event.message for line in events_of(tmp_path) if isinstance(line.event, Warned)]
    assert warning.startswith(
        f"An episode was restarted because its server died. {server.url} died: RemoteProtocolError"
    )


def test_a_server_that_stays_away_ends_the_run_with_that_reason(tmp_path: Path, server: Server):
    dies_at(server, 4, returns=False)
    config = server_run(server, patience_seconds=0.1)
    assert run_here(tmp_path, {**config, "parallel": 1}) == ExitCode.SERVER
    failed = failure_of(tmp_path)
    assert failed.category == "server"
    assert failed.message.startswith(f"The server died: {server.url} has not answered for 0 s")
    assert [trajectory.outcome.termination for trajectory in trajectories(tmp_path)] == ["done"]

    server.is_down = False
    server.reply = lambda body: (200, looks_up_then_stops(body))
    assert run_here(tmp_path, config) == ExitCode.FINISHED  # resumed
    assert [trajectory.outcome.termination for trajectory in trajectories(tmp_path)] == ["done"] * 3


def test_time_that_a_dead_server_took_is_no_timeout_of_the_policy(tmp_path: Path, server: Server, monkeypatch):
    monkeypatch.setattr(server_module, "FIRST_WAIT_SECONDS", 0.3)
    dies_at(server, 4, returns=True)
    config = {**server_run(server), "parallel": 1, "budget": {"seconds": 1.0}}
    assert run_here(tmp_path, config) == ExitCode.FINISHED
    assert [trajectory.outcome.termination for trajectory in trajectories(tmp_path)] == ["done"] * 3


def test_an_episode_that_kills_its_server_again_and_again_ends_the_run(tmp_path: Path, server: Server):
    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        deadly = len(body["messages"]) > 2 and len(server.requests) > 2
        return (500, {"error": "EngineCore encountered an issue"}) if deadly else (200, looks_up_then_stops(body))

    server.reply = reply
    assert run_here(tmp_path, {**server_run(server), "parallel": 1}) == ExitCode.SERVER
    failed = failure_of(tmp_path)
    assert failed.message.startswith("The server died 3 times during the same episode, m:")
    assert len(trajectories(tmp_path)) == 1


def test_another_replica_takes_over(tmp_path: Path, server: Server):
    with Server() as second:
        dies_at(server, 2, returns=False)
        assert run_here(tmp_path, server_run(server, replicas=[second.url])) == ExitCode.FINISHED
    assert [trajectory.outcome.termination for trajectory in trajectories(tmp_path)] == ["done"] * 3
    assert len(second.requests) > 2


def test_episodes_are_spread_over_the_replicas(tmp_path: Path, server: Server):
    with Server() as second:
        config = {**server_run(server, replicas=[second.url]), "tasks": {"count": 4}}
        assert run_here(tmp_path, config) == ExitCode.FINISHED
    assert (len(server.requests), len(second.requests)) == (4, 4)


def test_a_published_policy_is_waited_for_until_its_server_knows_it(tmp_path: Path, server: Server):
    server.models = []
    replies = iter([(404, {"error": {"type": "NotFoundError", "message": "no such model"}})])

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        server.models = ["m"]
        return next(replies, (200, looks_up_then_stops(body)))

    server.reply = reply
    assert run_here(tmp_path, {**server_run(server, published=True), "parallel": 1}) == ExitCode.FINISHED
    assert [trajectory.outcome.termination for trajectory in trajectories(tmp_path)] == ["done"] * 3
