"""The example runs as its docstring says, through the real gateway; only the model server is scripted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from retrace import Client

from apps.accounts.models import Role
from apps.policies import registration
from tests import factories
from tests.gateway.upstream import Reply, Upstream, calls, says
from tests.live import LiveStack

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "openai_agent.py"
LOOK = calls("list_orders", "{}")
DONE = says("The order is refunded.")


def play(stack: LiveStack, *replies: Reply) -> tuple[str, Client]:
    """Run the example against a server that gives these replies; returns its output and a client."""
    workspace = factories.workspace()
    member = factories.member(Role.RESEARCHER, of=workspace)
    client = Client(stack.url, factories.token(member))
    with Upstream(*replies) as upstream:
        registration.register_served(
            workspace=workspace, name="clerk", base_url=upstream.url, model="served", by=member.user
        )
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "client" / "src"),
            "RETRACE_URL": stack.url,
            "RETRACE_TOKEN": factories.token(member),
        }
        command = [sys.executable, str(EXAMPLE), "clerk"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, client


def test_a_policy_that_refunds_the_right_order_succeeds(live_stack: LiveStack) -> None:
    printed, client = play(live_stack, LOOK, calls("refund", '{"order": "17"}'), DONE)
    [session] = client.sessions.list()
    assert printed == f"Refunded: 17. Session {session.id}\n"
    assert (session.state, session.success, session.reward, session.calls) == ("finished", True, 1.0, 3)
    stored = client.trajectories.read(str(session.trajectory))
    assert stored["task"]["key"] == "refund-blue-lamp"
    names = [call["function"]["name"] for step in stored["steps"] for call in step["message"].get("tool_calls") or []]
    assert names == ["list_orders", "refund"]


def test_mistakes_of_a_policy_end_as_a_failure_not_as_a_crash(live_stack: LiveStack) -> None:
    wrong = calls("refund", '{"order": "16"}'), calls("dance", "{}"), calls("refund", "not JSON"), DONE
    printed, client = play(live_stack, *wrong)
    [session] = client.sessions.list()
    assert printed.startswith("Refunded: 16.")
    assert (session.success, session.reward, session.calls) == (False, 0.0, 4)


def test_it_is_as_short_as_promised() -> None:
    lines = EXAMPLE.read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 60
