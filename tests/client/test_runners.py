"""Runners: the results that an agent returns, and polling while no episode is available."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from retrace import Client, Episode, Retries
from retrace.cli.main import main
from retrace.errors import Conflict, RequestRefused
from retrace.runners import MAX_PAUSE, NoOutcome, outcome_of, serve_agent

EPISODE = {
    "id": "e",
    "run": "r",
    "run_name": "talks",
    "moment": "step 1",
    "task": {"key": "t"},
    "attempt": 0,
    "session": "s",
    "base_url": "http://x",
    "api_key": "k",
    "lease_seconds": 60,
    "max_calls": 5,
}


class Server:
    """A stand-in for the client: leases a given number of episodes and records the reports."""

    def __init__(self, episodes: int) -> None:
        self.left = episodes
        self.asked = 0
        self.reports: list[tuple[str, str, dict[str, Any]]] = []
        self.episodes = self.sessions = self
        self._lock = threading.Lock()

    def lease(self, **wanted: Any) -> Episode | None:
        with self._lock:
            self.asked += 1
            if not self.left:
                return None
            self.left -= 1
            return Episode.model_validate({**EPISODE, "id": f"e{self.left}", "session": f"s{self.left}"})

    def finish(self, session: str, **outcome: Any) -> None:
        self.reports.append(("finish", session, outcome))

    def abandon(self, session: str, **why: Any) -> None:
        self.reports.append(("abandon", session, why))


def serve(server: Server, agent: Any, **options: Any) -> int:
    as_client: Any = server
    client: Client = as_client
    return serve_agent(client, agent, runner="r", **options)


def test_each_episode_is_played_and_told_once() -> None:
    server = Server(12)
    assert serve(server, lambda episode: {"reward": 0.5, "success": True}, parallel=4, until_idle=0) == 12
    assert sorted(session for _, session, _ in server.reports) == sorted(f"s{number}" for number in range(12))
    assert {kind for kind, _, _ in server.reports} == {"finish"}


def test_an_exception_gives_the_episode_back_and_the_others_go_on() -> None:
    server = Server(3)

    async def agent(episode: Episode) -> bool:
        if episode.id == "e1":
            raise KeyError("lamp")
        return True

    assert serve(server, agent, until_idle=0) == 3
    reports = {session: (kind, outcome_sent) for kind, session, outcome_sent in server.reports}
    assert reports["s1"] == ("abandon", {"problem": "KeyError: 'lamp'"})
    assert reports["s0"] == reports["s2"] == ("finish", {"success": True})


def test_an_agent_that_returns_nothing_is_a_mistake_that_ends_the_program() -> None:
    server = Server(3)
    with pytest.raises(NoOutcome, match="returned None"):
        serve(server, lambda episode: None, until_idle=0)
    assert [kind for kind, _, _ in server.reports] == ["abandon"]


def test_an_agent_that_cancels_itself_gives_the_episode_back() -> None:
    server = Server(2)

    async def agent(episode: Episode) -> bool:
        if episode.id == "e1":
            raise asyncio.CancelledError
        return True

    assert serve(server, agent, until_idle=0) == 2
    assert [(kind, session) for kind, session, _ in server.reports] == [("abandon", "s1"), ("finish", "s0")]


def test_an_outcome_that_the_server_refuses_ends_the_program() -> None:
    server = refusing(RequestRefused("reward: Expected 1000 or less.", status=400, request="POST"))
    with pytest.raises(RequestRefused):
        serve(server, lambda episode: 2000.0, until_idle=0)
    assert [kind for kind, _, _ in server.reports] == ["abandon"]


@pytest.mark.parametrize("outcome", [float("nan"), {"metadata": {"lamp": object()}}])
def test_an_outcome_that_is_not_json_ends_the_program_with_a_sentence(outcome: Any) -> None:
    with Client("http://127.0.0.1:9", "rt_x", retries=Retries(most=0)) as client:
        server = Server(3)
        server.finish = client.sessions.finish  # type: ignore[method-assign]  # encodes what it sends
        with pytest.raises(NoOutcome, match=r"The agent returned .*, which can't be sent: "):
            serve(server, lambda episode: outcome, until_idle=0)
    assert [kind for kind, _, _ in server.reports] == ["abandon"]


def test_from_the_shell_it_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_outcome(*_: Any, **__: Any) -> int:
        return serve(Server(1), lambda episode: None)

    monkeypatch.setattr(Client, "serve_agent", no_outcome)
    assert main(["serve-agent", "os:getcwd", "--url", "http://127.0.0.1:9", "--token", "rt_x"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("retrace: The agent returned None.")


def test_an_episode_that_no_longer_counts_is_not_given_back() -> None:
    server = refusing(Conflict("It has ended.", status=409, request="POST"))
    assert serve(server, lambda episode: True, until_idle=0) == 3
    assert server.reports == []


def refusing(refusal: Exception) -> Server:
    """A server that accepts no outcome."""
    server = Server(3)

    def finish(session: str, **outcome: Any) -> None:
        raise refusal

    server.finish = finish  # type: ignore[method-assign]  # this one only
    return server


def test_while_nothing_waits_one_thread_asks_for_all() -> None:
    few, many = Server(0), Server(0)
    for server, parallel in ((few, 1), (many, 16)):
        began = time.monotonic()
        assert serve(server, lambda episode: True, parallel=parallel, until_idle=1.0) == 0
        assert time.monotonic() - began < 5 * MAX_PAUSE
    assert many.asked == few.asked


def test_what_an_agent_may_return() -> None:
    assert outcome_of(True) == {"success": True}
    assert outcome_of(1) == outcome_of(1.0) == {"reward": 1.0}
    assert outcome_of({"success": False, "rewards": {"polite": 1.0}}) == {"success": False, "rewards": {"polite": 1.0}}
    for wrong in ("yes", {}, {"score": 1}, [1.0]):
        with pytest.raises(NoOutcome, match="Expected True or False, a reward"):
            outcome_of(wrong)
