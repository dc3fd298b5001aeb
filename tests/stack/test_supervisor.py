"""A part that keeps ending is restarted forever, at increasing intervals, without affecting other parts."""

import errno
from pathlib import Path

import pytest

from apps.common.stack import supervisor
from apps.common.stack.errors import StackError
from apps.common.stack.supervisor import Supervisor


class Clock:
    """A clock that only advances while the supervisor sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.until = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now > self.until:
            raise StopIteration


class Ended:
    """A process that ended with status 1."""

    pid = 0
    returncode = 1

    def poll(self) -> int | None:
        return 1


class Running(Ended):
    def poll(self) -> int | None:
        return None


class Part:
    """A part that ends right after starting, or fails to start."""

    def __init__(self, clock: Clock, name: str = "worker", *, lasts: bool = False) -> None:
        self.name = name
        self.log = Path("/nowhere/worker.log")
        self.clock = clock
        self.lasts = lasts
        self.process = Running() if lasts else Ended()
        self.starts: list[float] = []
        self.refusal: Exception | None = None

    def start(self) -> None:
        self.starts.append(self.clock.now)
        if self.refusal:
            raise self.refusal
        self.process = Running() if self.lasts else Ended()

    def stop(self) -> None:
        self.process = None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(supervisor.time, "monotonic", clock.monotonic)
    monkeypatch.setattr(Supervisor, "_reap_adopted", lambda self: None)  # each quarter of a second scans all of /proc
    return clock


def watch(clock: Clock, *parts: Part, seconds: float, say=lambda text: None) -> None:
    clock.until = clock.now + seconds
    with pytest.raises(StopIteration):
        Supervisor(parts, say).watch(clock.sleep)


def waits(part: Part) -> list[int]:
    return [round(later - earlier) for earlier, later in zip(part.starts, part.starts[1:], strict=False)]


def test_a_part_that_ends_at_once_is_restarted_for_ever_and_ever_more_slowly(clock):
    part = Part(clock)
    watch(clock, part, seconds=600)
    assert waits(part)[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert len(part.starts) > 10
    assert set(waits(part)[7:]) == {60}


@pytest.mark.parametrize("refusal", [StackError("PostgreSQL ended while starting."), OSError(errno.ENOSPC, "full")])
def test_a_service_that_does_not_start_is_tried_again_and_the_others_are_looked_after(clock, refusal):
    service, worker = Part(clock, "postgres"), Part(clock)
    service.refusal = refusal
    printed: list[str] = []
    watch(clock, service, worker, seconds=300, say=printed.append)
    assert waits(service)[:6] == [1, 2, 4, 8, 16, 32]
    assert len(worker.starts) > 7
    assert any("postgres does not start" in text and "Trying again in 4 s (restart 4)" in text for text in printed)


def test_a_part_that_ran_for_minutes_is_restarted_at_once(clock):
    part = Part(clock, lasts=True)
    clock.until = clock.now + 900
    watcher = Supervisor([part], lambda text: None)

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if round(clock.now % 200, 2) == 0:
            part.process = Ended()

    with pytest.raises(StopIteration):
        watcher.watch(sleep)
    assert [round(start) for start in part.starts] == [1200, 1400, 1600, 1800]


def test_a_terminal_that_cannot_be_written_to_ends_nothing(clock):
    part = Part(clock)

    def full(text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    watch(clock, part, seconds=60, say=full)
    assert len(part.starts) > 3
