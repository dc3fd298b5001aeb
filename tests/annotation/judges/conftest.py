"""A server of models that judge, and a workspace for them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.accounts.models import Workspace
from apps.annotation.judges import llm_judge
from apps.jobs import lifecycle
from tests import factories


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a real server process."""
    program = Path(__file__).with_name("judge_server.py")
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        process.terminate()


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


@pytest.fixture
def sent(monkeypatch):
    """The tasks sent to workers, which run none of them."""
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(lifecycle, "enqueue", lambda *call: calls.append(call))
    monkeypatch.setattr(llm_judge, "FIRST_WAIT_SECONDS", 0.01)
    return calls
