"""Runs two jobs in separate processes, alternating step by step, so that other load on the machine slows both equally."""

import multiprocessing
import time
import traceback
from collections.abc import Callable, Sequence
from math import comb
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Event, Semaphore
from typing import NamedTuple

Job = Callable[[Callable[[], None]], None]
"""Runs to its end, and calls its argument at the end of each step. It must be picklable."""


class Spent(NamedTuple):
    """Duration of a step in seconds."""

    processor: float
    """CPU time of all threads of its process."""
    wall: float


class Comparison(NamedTuple):
    """The first job's relative duration: the median of the steps' ratios, with its 95 % interval."""

    ratio: float
    low: float
    high: float


class SideFailed(Exception):
    """A job failed; the message is its traceback."""


def side_by_side(first: Job, second: Job) -> tuple[list[Spent], list[Spent]]:
    """Run both, alternating a step of the first and a step of the second. A step lasts from the end of the previous one.

    The time before the first step ends and after the last isn't measured; one process sleeps while the other works. Raises SideFailed.
    """
    lanes = Lane(first), Lane(second)
    for lane, other in (lanes, lanes[::-1]):
        lane.start(other)
    lanes[0].may_run.release()
    at_work = [(lane, other) for lane, other in (lanes, lanes[::-1])]
    while at_work:
        ended = wait([lane.process.sentinel for lane, _ in at_work])
        for lane, other in at_work:
            if lane.process.sentinel in ended:
                lane.is_over.set()
                other.may_run.release()
        at_work = [(lane, other) for lane, other in at_work if not lane.is_over.is_set()]
    ours, theirs = (lane.spent() for lane in lanes)
    return ours, theirs


class Lane:
    """One of the two jobs, with its process."""

    def __init__(self, job: Job) -> None:
        spawned = multiprocessing.get_context("spawn")
        self.may_run = spawned.Semaphore(0)
        self.is_over = spawned.Event()
        self._job = job
        self._make = spawned.Process
        self._results, self._results_end = spawned.Pipe(duplex=False)

    def start(self, other: "Lane") -> None:
        turn = Turn(self.may_run, other.may_run, other.is_over)
        self.process = self._make(target=work, args=(self._job, turn, self._results_end), daemon=True)
        self.process.start()
        self._results_end.close()

    def spent(self) -> list[Spent]:
        """The durations of its steps. Raises SideFailed."""
        try:
            result: list[Spent] | str = self._results.recv()
        except EOFError:
            result = f"The process ended with {self.process.exitcode}."
        if isinstance(result, str):
            raise SideFailed(result)
        return result


class Turn(NamedTuple):
    """Synchronization of a job's process with the other's."""

    mine: Semaphore
    others: Semaphore
    other_is_over: Event

    def pass_on(self) -> None:
        """Let the other process take a step, and sleep until it has."""
        if not self.other_is_over.is_set():
            self.others.release()
            self.mine.acquire()


def work(job: Job, turn: Turn, results: Connection) -> None:
    """In a job's process: run it, and send the duration of each step except the first."""
    spent: list[Spent] = []
    began: list[tuple[float, float]] = []

    def step_ended() -> None:
        if began:
            spent.append(Spent(time.process_time() - began[-1][0], time.perf_counter() - began[-1][1]))
        turn.pass_on()
        began.append((time.process_time(), time.perf_counter()))

    turn.mine.acquire()
    try:
        job(step_ended)
        results.send(spent)
    except BaseException:
        results.send(traceback.format_exc())


def compared(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Compare step by step. Raises ValueError for fewer than 6 pairs, which have no 95 % interval."""
    ratios = sorted(a / b for a, b in zip(first, second, strict=True))
    left_out = _left_out(len(ratios))
    middle = len(ratios) // 2
    ratio = ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2
    return Comparison(ratio, ratios[left_out], ratios[-1 - left_out])


def _left_out(count: int) -> int:
    """How many values at each end are outside the median's 95 % interval, by the sign test."""
    tail, index = 2 * 0.5**count, 0
    if tail > 0.05:
        raise ValueError(f"An interval needs 6 pairs or more; got {count}.")
    while (tail := tail + 2 * comb(count, index + 1) * 0.5**count) <= 0.05:
        index += 1
    return index
