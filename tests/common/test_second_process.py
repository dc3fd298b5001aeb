"""Second processes: nothing waits for one that has exited, and none is left behind."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from apps.common.second_process import SecondProcess, Stopped

ENDS_WITHIN = 20
"""Timeout in seconds, for busy machines."""


@pytest.fixture
def process() -> Iterator[SecondProcess]:
    """A process that waits for its first request."""
    with closing(SecondProcess("apps.trajectories.imports.reader_process")) as running:
        yield running


def test_a_process_that_died_is_not_waited_for(process: SecondProcess) -> None:
    process._child.kill()
    process._child.wait()
    with pytest.raises(Stopped, match="status -9"):
        process.send("anything")
    with pytest.raises(Stopped, match="status -9"):
        process.receive()


def test_a_request_that_it_does_not_understand_ends_it(process: SecondProcess) -> None:
    process.send("nothing that it knows")
    with pytest.raises(Stopped, match="reader_process, a second process of this worker, ended with status 1"):
        process.receive()


def test_it_ends_when_nobody_asks_any_more(process: SecondProcess) -> None:
    process._child.communicate(timeout=ENDS_WITHIN)  # closes its input
    assert process._child.returncode == 0
