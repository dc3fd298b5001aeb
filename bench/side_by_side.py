"""Two jobs, each in a process of its own, that take a step in turn: whatever else the machine does slows both alike."""

import multiprocessing
import time
import traceback
from collections.abc import Callable, Sequence
from math import comb
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Event, Semaphore
from typing import NamedTuple

Job = Callable[[Callable[[], None]], None]
"""Works to its end, and calls what it is given at the end of each of its steps. It is pickled on its way to its process."""


class Spent(NamedTuple):
    """What one step took, in seconds."""

    processor: float
    """Of all threads of its process."""
    wall: float


class Comparison(NamedTuple):
    """How much longer the first job takes: the median of the steps' ratios, with its 95 % interval."""

    ratio: float
    low: float
    high: float


class SideFailed(Exception):
    """A job ended badly; the message is its traceback."""


def side_by_side(first: Job, second: Job) -> tuple[list[Spent], list[Spent]]:
    """Run both, a step of the first, a step of the second, and so on. A step lasts from the end of the one before it.

    What a job does before its first step ends, and after its last, is not measured; one sleeps while the other works. Raises SideFailed.
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
    """One of the two."""

    def __init__(self, job: Job) -> None:
        spawned = multiprocessing.get_context("spawn")
        self.may_run = spawned.Semaphore(0)
        self.is_over = spawned.Event()
        self._job = job
        self._make = spawned.Process
        self._told, self._tells = spawned.Pipe(duplex=False)

    def start(self, other: "Lane") -> None:
        turn = Turn(self.may_run, other.may_run, other.is_over)
        self.process = self._make(target=work, args=(self._job, turn, self._tells), daemon=True)
        self.process.start()
        self._tells.close()

    def spent(self) -> list[Spent]:
        """What its steps took. Raises SideFailed."""
        try:
            told: list[Spent] | str = self._told.recv()
        except EOFError:
            told = f"The process ended with {self.process.exitcode}."
        if isinstance(told, str):
            raise SideFailed(told)
        return told


class Turn(NamedTuple):
    """How a job's process waits for the other's."""

    mine: Semaphore
    others: Semaphore
    other_is_over: Event

    def pass_on(self) -> None:
        """Let the other take a step, and sleep until it has."""
        if not self.other_is_over.is_set():
            self.others.release()
            self.mine.acquire()


def work(job: Job, turn: Turn, tells: Connection) -> None:
    """Of a job's process: do it, and tell what each step but the first took."""
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
        tells.send(spent)
    except BaseException:
        tells.send(traceback.format_exc())


def compared(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Step by step. Raises ValueError for fewer than 6 pairs, of which no 95 % interval can be told."""
    ratios = sorted(a / b for a, b in zip(first, second, strict=True))
    left_out = _left_out(len(ratios))
    middle = len(ratios) // 2
    ratio = ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2
    return Comparison(ratio, ratios[left_out], ratios[-1 - left_out])


def _left_out(count: int) -> int:
    """How many values at each end lie outside of the median's 95 % interval, by the sign test."""
    tail, place = 2 * 0.5**count, 0
    if tail > 0.05:
        raise ValueError(f"An interval needs 6 pairs or more; got {count}.")
    while (tail := tail + 2 * comb(count, place + 1) * 0.5**count) <= 0.05:
        place += 1
    return place
