"""Environments on servers, played over HTTP against real server processes."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.configs import Budget
from contract.events import Failed
from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from tests.trainer.environments.scripted_episodes import call, first_tasks
from tests.trainer.runs import ROOT, events_of, run_here
from trainer.environments import SERVED_VARIABLE, environment_named
from trainer.environments.office import Office
from trainer.environments.replay import Diverged, replayed_to
from trainer.environments.served import Served, seed_of, served_at, session
from trainer.environments.served.actions import actions_at, as_text
from trainer.environments.server import Server, Session
from trainer.failures import ExitCode
from trainer.records import read_trajectories
from trainer.rollouts.episode import play
from trainer.rollouts.policy import Turn

EPISODE = Task(key="t", instruction="", initial_state={"seed": 1})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def office() -> Iterator[str]:
    """The URL of a process that serves the office environment."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "trainer.environments.server",
        "office",
        "--port",
        str(port),
        "--levels",
        "L1",
        "L3",
    ]
    process = subprocess.Popen(command, cwd=ROOT)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(150):
            try:
                assert httpx.get(f"{address}/health").json() == {"status": "healthy"}
                break
            except httpx.TransportError:
                assert process.poll() is None
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


def test_a_served_environment_answers_like_the_one_that_is_served(office: str):
    there, here = served_at(office, "there")(), Office()
    assert {tool["function"]["name"] for tool in there.tools} == {tool["function"]["name"] for tool in here.tools}
    (opening,) = there.reset(EPISODE)
    task = Server(Office, ("L1", "L3")).task(1)
    here.reset(task)
    assert opening["content"].endswith(task.instruction)
    for action in (
        call("find_contact", name="Nobody"),
        call("no_such_tool"),
        call("move_mail", mail=task.initial_state["mails"][0]["mail"], folder="trash"),
    ):
        remote, local = there.step(action), here.step(action)
        assert remote.observation == local.observation
        assert (remote.reward, remote.done, remote.info) == (local.reward, local.done, local.info)
    assert there.step({"role": "assistant", "content": "Done."}).done
    assert there.score() == here.score()
    there.close()


def test_many_episodes_are_played_at_once_and_can_be_replayed(
    office: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(SERVED_VARIABLE, f"other=http://127.0.0.1:1 desk={office}")
    monkeypatch.setattr(Served, "scripts", {"expert": lookups}, raising=False)
    config = {
        "kind": "rollout",
        "policy": {"engine": "scripted"},
        "tasks": {"environment": "desk", "count": 6},
        "parallel": 4,
    }
    assert run_here(tmp_path, config) == ExitCode.FINISHED
    trajectories = list(read_trajectories(tmp_path / "trajectories.jsonl"))
    assert {run.task.environment for run in trajectories} == {"desk"}
    assert [run.task.initial_state["seed"] for run in sorted(trajectories, key=lambda run: run.task.key)] == [
        0,
        10,
        20,
        30,
        40,
        50,
    ]
    assert all(run.task.instruction and run.task.held_out and run.outcome.termination == "done" for run in trajectories)
    assert trajectories[0].steps[0].error == "nobody here is called 'Nobody'"
    assert replayed_to(trajectories[0], 2).chat == trajectories[0].messages()[:5]
    trajectories[0].steps[1].context[0]["content"] = "[]"
    with pytest.raises(Diverged):
        replayed_to(trajectories[0], 2)


def lookups(task: Task, rng: Any) -> Any:
    from trainer.environments.scripts import Call

    yield Call("find_contact", {"name": "Nobody"})
    yield Call("read_agenda", {"day": "Monday"})
    return "Done."


def test_held_out_seeds_are_never_training_seeds():
    train, held_out = ({seed_of(split, number) for number in range(90)} for split in ("train", "held_out"))
    assert len(train) == len(held_out) == 90
    assert not train & held_out


def test_a_server_that_is_not_there_fails_the_run_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SERVED_VARIABLE, f"desk=http://127.0.0.1:{free_port()}")
    config = {"kind": "rollout", "policy": {"engine": "scripted"}, "tasks": {"environment": "desk", "count": 1}}
    assert run_here(tmp_path, config) == ExitCode.CONFIG
    last = events_of(tmp_path)[-1].event
    assert isinstance(last, Failed)
    assert "doesn't answer as an OpenEnv server: ConnectError" in last.message


class Counter(BaseHTTPRequestHandler):
    """A server of the older kind, without /ws and with one episode: count to three."""

    protocol_version = "HTTP/1.1"
    schema: dict[str, Any] = {
        "properties": {"by": {"type": "integer"}, "metadata": {"type": "object"}},
        "required": ["by"],
    }
    count = 0

    def do_GET(self) -> None:
        self.answer(200, {"action": self.schema}) if self.path == "/schema" else self.answer(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/reset":
            type(self).count = 0
            return self.answer(
                200, {"observation": {"message": f"Count to 3, episode {body['seed']}."}, "reward": None, "done": False}
            )
        if not isinstance(body["action"].get("by"), int):
            return self.answer(422, {"detail": "by must be a number"})
        type(self).count += body["action"]["by"]
        done = self.count >= 3
        self.answer(
            200,
            {"observation": {"count": self.count, "even": self.count % 2 == 0}, "reward": float(done), "done": done},
        )

    def answer(self, status: int, body: dict[str, Any]) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def counter() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counter)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_servers_without_sessions_are_played_too(counter: str):
    environment = served_at(counter, "count")()
    (tool,) = environment.tools
    assert tool["function"]["name"] == "act"
    assert tool["function"]["parameters"]["properties"] == {"by": {"type": "integer"}}
    assert environment.reset(EPISODE) == [{"role": "user", "content": "Count to 3, episode 1."}]
    refused = environment.step(call("act", by="much"))
    assert "by must be a number" in refused.info["error"]
    first = environment.step(call("act", by=2))
    assert json.loads(first.observation[0]["content"]) == {"count": 2, "even": True}
    assert (first.reward, first.done, environment.score().success) == (0.0, False, False)
    last = environment.step(call("act", by=1))
    assert (last.reward, last.done, environment.score().success) == (1.0, True, True)
    assert environment.score().is_success_from_reward
    environment.close()


class CountingByOne:
    """Counts by one, slowly."""

    async def act(self, chat: list[Message], tools: list[ToolSchema], *, max_tokens: int) -> Turn:
        await asyncio.sleep(0.2)
        return Turn(call("act", by=1))


async def test_episodes_take_turns_at_a_server_that_holds_one(counter: str):
    environment, budget = served_at(counter, "count"), Budget(seconds=2.0)  # less than all of them take
    episodes = await asyncio.gather(*(play(environment(), EPISODE, CountingByOne(), budget) for _ in range(4)))
    for episode in episodes:
        counts = [
            json.loads(str(message["content"]))["count"] for message in episode.messages() if message["role"] == "tool"
        ]
        assert (counts, episode.outcome.termination, episode.outcome.reward) == ([1, 2, 3], "done", 1.0)


def test_calls_after_the_one_that_ends_the_episode_are_not_sent(counter: str):
    environment = served_at(counter, "count")()
    environment.reset(EPISODE)
    action = call("act", by=3)
    action["tool_calls"] = [action["tool_calls"][0] | {"id": name} for name in ("first", "second")]
    transition = environment.step(action)
    assert (transition.reward, transition.done, environment.score().reward) == (1.0, True, 1.0)
    assert [(answer["tool_call_id"], json.loads(answer["content"])) for answer in transition.observation] == [
        ("first", {"count": 3, "even": False}),
        ("second", {"error": "the episode ended with the call before"}),
    ]
    assert "error" not in transition.info
    environment.close()


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        ({"message": "Hello.", "metadata": {}}, "Hello."),
        ({"count": 2, "done": False, "reward": 1.0}, '{"count": 2}'),
        ({"tool_name": "add", "result": {"content": [], "data": 3}, "error": None}, "3"),
        ({"tool_name": "say", "result": "Hello.", "error": None}, "Hello."),
        ({"tool_name": "add", "result": None, "error": {"message": "no"}}, '{"message": "no"}'),
    ],
)
def test_observations_are_told_in_few_words(observation: dict[str, Any], words: str):
    assert as_text(observation) == words


def test_where_the_action_is_a_text_what_is_said_is_done(counter: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Counter, "schema", {"properties": {"by": {"type": "string"}}, "required": ["by"]})
    actions = actions_at(counter)
    assert (actions.kind, actions.tools) == ("text", [])
    assert actions.of_words({"role": "assistant", "content": "two"}) == {"by": "two"}


def test_only_what_the_operator_has_named_is_connected_to(counter: str):
    with pytest.raises(Exception, match="expected 'code' or 'office'"):
        environment_named(counter)


def test_splits_of_a_server_are_drawn_apart(counter: str):
    tasks = first_tasks(served_at(counter, "count"), 3)
    assert [task.initial_state["seed"] for task in tasks] == [1, 2, 3]
    assert tasks[0].instruction == "Count to 3, episode 1."


class Misbehaving(Counter):
    """Responds correctly once; the next step gets `answer_to_step`."""

    answer_to_step: bytes = b""
    status = 200
    length: int | None = None

    def do_POST(self) -> None:
        if self.path == "/reset" or type(self).count == 0:
            return super().do_POST()
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(self.length or len(self.answer_to_step)))
        self.end_headers()
        self.close_connection = True
        sent = 0
        with contextlib.suppress(OSError):
            while sent < (self.length or 1):
                self.wfile.write(self.answer_to_step)
                self.wfile.flush()
                if self.length is None or self.slow:
                    return time.sleep(self.slow)
                sent += len(self.answer_to_step)

    slow = 0.0


@pytest.fixture
def misbehaving(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a separate server, since its class attributes are changed and restored."""
    monkeypatch.setattr(session, "SECONDS", 2.0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Misbehaving)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def step_with(**fields: str) -> bytes:
    fields_sent = {"observation": "{}", "reward": "0", "done": "false", **fields}
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in fields_sent.items()) + "}").encode()


@pytest.mark.parametrize(
    ("behavior", "reason"),
    [
        ({"answer_to_step": b"<html>"}, "the answer isn't JSON"),
        ({"answer_to_step": b"[1]"}, "the answer is a list, expected an object"),
        ({"answer_to_step": b"oops", "status": 500}, "it failed (500)"),
        ({"answer_to_step": b"moved", "status": 302}, "it failed (302)"),
        ({"answer_to_step": step_with(reward="NaN")}, "the reward is 'nan', expected a finite number"),
        ({"answer_to_step": step_with(reward="-1e999")}, "the reward is '-inf', expected a finite number"),
        ({"answer_to_step": step_with(reward="1" + "0" * 400)}, "the reward is '1000"),
        ({"answer_to_step": step_with(reward='"much"')}, "the reward is 'much', expected a finite number"),
        ({"answer_to_step": step_with(done='"false"')}, "done is 'false', expected true or false"),
        ({"answer_to_step": b"x" * 2**20, "length": 2**30}, "the answer has more than 16 MB"),
        ({"answer_to_step": b'{"obs', "length": 1000, "slow": 0.01}, "RemoteProtocolError"),
        ({"answer_to_step": b"{", "length": 1000, "slow": 20.0}, "ReadTimeout"),
    ],
)
def test_a_server_that_misbehaves_ends_the_episode_with_its_reason(
    misbehaving: str, behavior: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
):
    """It ends immediately, with the earlier steps; memory doesn't grow with what the server sends."""
    for name, value in behavior.items():
        monkeypatch.setattr(Misbehaving, name, value)

    class Adding:
        async def act(self, chat: Any, tools: Any, *, max_tokens: int) -> Turn:
            return Turn(call("act", by=1))

    began = time.monotonic()
    budget = Budget(steps=10, seconds=30)
    run = asyncio.run(play(served_at(misbehaving, "bad")(), EPISODE, Adding(), budget))
    assert time.monotonic() - began < 15
    assert (run.outcome.termination, len(run.steps), run.outcome.reward) == ("environment_error", 2, None)
    assert reason in run.info["environment_error"]


def test_a_server_that_is_never_done_is_left_when_the_budget_is_spent(counter: str):
    class Waiting:
        async def act(self, chat: Any, tools: Any, *, max_tokens: int) -> Turn:
            return Turn(call("act", by=0))

    run = asyncio.run(play(served_at(counter, "count")(), EPISODE, Waiting(), Budget(steps=5)))
    assert (run.outcome.termination, len(run.steps)) == ("max_steps", 5)
    assert run.info["success_from_reward"] is True  # the server doesn't report success


def test_an_episode_of_a_task_of_ones_own_opens_with_its_chat():
    here = Office()
    [task] = first_tasks(Office, 1, levels=("L3",), seed=5)
    opening = here.reset(task)
    request = json.dumps({"type": "reset", "data": {"task": task.to_json(), "seed": 3}})
    answer = Session(Server(Office)).answer(request)
    assert answer is not None
    assert answer["data"]["metadata"]["messages"] == opening
    nobodys = Session(Server(Office)).answer('{"type": "reset", "data": {"task": {"instruction": "Do it."}}}')
    assert nobodys is not None
    assert nobodys["data"] == {"code": "VALIDATION_ERROR", "message": "BadRow: `task` has no key."}
