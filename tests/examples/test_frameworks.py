"""Agents of four frameworks, each in its own virtual environment, through the real gateway. The model server is scripted, and answers as vLLM does."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from retrace import Client

from apps.accounts.models import Role
from apps.policies import registration
from tests import factories
from tests.gateway.upstream import Reply, Upstream, says
from tests.live import LiveStack

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "retrace-tests"


def python_with(requirements: str) -> Path:
    """A Python with these requirements and the client, created once per requirements file."""
    file = EXAMPLES / f"requirements-{requirements}.txt"
    folder = CACHE / f"{requirements}-{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(file), "httpx", "pydantic"]
        subprocess.run(install, check=True, timeout=600)
        ready.touch()
    return python


def does(*calls: tuple[str, dict[str, Any]]) -> Reply:
    """A turn with these parallel calls, each with its own id."""
    made = [
        {
            "id": f"call_{name}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    return lambda body: {"role": "assistant", "content": None, "tool_calls": made}


class Played:
    """An example's output, and what Retrace has recorded of it."""

    def __init__(self, stack: LiveStack, requirements: str, *command: str) -> None:
        self.python = python_with(requirements)
        self.command = command
        self.stack = stack
        self.member = factories.member(Role.RESEARCHER)
        self.token = factories.token(self.member)

    def run(self, folder: Path, *replies: Reply) -> str:
        """Run it against a server that gives these replies; returns its output."""
        with Upstream(*replies) as upstream:
            registration.register_served(
                workspace=self.member.workspace,
                name="clerk",
                base_url=upstream.url,
                model="served",
                by=self.member.user,
            )
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "PYTHONPATH": str(ROOT / "client" / "src"),
                "RETRACE_URL": self.stack.url,
                "RETRACE_TOKEN": self.token,
                "MSWEA_SILENT_STARTUP": "1",
            }
            command = [str(self.python), *self.command]
            done = subprocess.run(command, cwd=EXAMPLES, env=environment, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def session(self) -> Any:
        with Client(self.stack.url, self.token) as client:
            [session] = client.sessions.list()
            return session

    def trajectories(self) -> Iterator[dict[str, Any]]:
        """The trajectories, the session's own first."""
        with Client(self.stack.url, self.token) as client:
            first = str(self.session.trajectory)
            others = [trajectory.id for trajectory in client.trajectories.list() if trajectory.id != first]
            for trajectory_id in [first, *others]:
                yield client.trajectories.read(trajectory_id)


def called(trajectory: dict[str, Any]) -> list[list[str]]:
    """The names of the tools called in each step."""
    return [
        [call["function"]["name"] for call in step["message"].get("tool_calls") or []] for step in trajectory["steps"]
    ]


def is_token_true(trajectory: dict[str, Any]) -> bool:
    """Whether every step has the sampled token ids and continues exactly where the previous one ended."""
    return all("token_ids" in step["info"] and "seam" not in step["info"] for step in trajectory["steps"])


LOOK = does(*(("find_order", {"number": number}) for number in ("16", "17")))
REFUND = does(("refund", {"order": "17"}))
DONE = says("Order 17 is refunded.")


def test_langgraph_with_parallel_calls_and_streams(live_stack: LiveStack, tmp_path: Path) -> None:
    played = Played(live_stack, "langgraph", str(EXAMPLES / "langgraph_agent.py"), "clerk")
    assert played.run(tmp_path, LOOK, REFUND, DONE) == "Refunded: 17\n"
    [trajectory] = played.trajectories()
    assert called(trajectory) == [["find_order", "find_order"], ["refund"], []]
    results = [message["content"] for message in trajectory["steps"][1]["context"]]
    assert results == ["red lamp", "blue lamp"]
    assert {tool["function"]["name"] for tool in trajectory["tools"]} == {"find_order", "refund"}
    assert is_token_true(trajectory)
    assert (played.session.success, played.session.calls) == (True, 3)


def test_the_agents_sdk_with_an_agent_as_a_tool(live_stack: LiveStack, tmp_path: Path) -> None:
    played = Played(live_stack, "agents-sdk", str(EXAMPLES / "agents_sdk_agent.py"), "clerk")
    ask = does(("ask_clerk", {"input": "Which order is the blue lamp?"}))
    assert played.run(tmp_path, ask, LOOK, says("17"), REFUND, DONE) == "Refunded: 17\n"
    of_manager, of_clerk = played.trajectories()
    assert called(of_manager) == [["ask_clerk"], ["refund"], []]
    assert called(of_clerk) == [["find_order", "find_order"], []]
    assert of_clerk["task"]["instruction"] == "Which order is the blue lamp?"
    assert [message["content"] for message in of_manager["steps"][1]["context"]] == ["17"]
    assert is_token_true(of_manager)
    assert is_token_true(of_clerk)
    assert (played.session.success, played.session.calls) == (True, 5)


def test_mini_swe_agent(live_stack: LiveStack, tmp_path: Path) -> None:
    played = Played(live_stack, "mini-swe-agent", str(EXAMPLES / "mini_swe_agent.py"), "clerk")
    mend = does(("bash", {"command": "sed -i 's/a \\* b/a + b/' sum.py && cat sum.py"}))
    submit = does(("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}))
    printed = played.run(tmp_path, does(("bash", {"command": "cat sum.py"})), mend, submit)
    assert printed.endswith("It is mended.\n")
    [trajectory] = played.trajectories()
    assert called(trajectory) == [["bash"], ["bash"], ["bash"]]
    assert "return a * b" in trajectory["steps"][1]["context"][0]["content"]
    assert "return a + b" in trajectory["steps"][2]["context"][0]["content"]
    assert is_token_true(trajectory)


def test_an_inspect_task(live_stack: LiveStack, tmp_path: Path) -> None:
    command = ["-m", "inspect_ai", "eval", "inspect_task.py", "--model", "none", "-T", "policy=clerk"]
    played = Played(live_stack, "inspect", *command, "--log-dir", str(tmp_path))
    printed = played.run(tmp_path, LOOK, does(("submit", {"answer": "17"})))
    assert "accuracy" in printed
    [trajectory] = played.trajectories()
    assert called(trajectory) == [["find_order", "find_order"], ["submit"]]
    assert trajectory["task"]["key"] == "blue-lamp"
    assert is_token_true(trajectory)
    assert played.session.success is True


@pytest.mark.parametrize("name", ["langgraph_agent", "agents_sdk_agent", "mini_swe_agent", "inspect_task"])
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 80
