"""What the measurements share: sizes, figures, and the clock, the memory meter and the web processes to take them with.

A measurement is a module of this package with one function:

    def measure(size: Size) -> Iterator[Figure]: ...

It gets an empty, migrated database of its own. `python -m bench` runs every measurement, `python -m bench 1000 importing`
one of them with 1,000 items.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any, Literal, NamedTuple

import psutil

SIZES = {"small": 1_000, "medium": 10_000, "full": 100_000}


class Size(NamedTuple):
    """How much to measure with. `full` is the size that the limits are stated for."""

    items: int
    """Items in the queue; also preference pairs to freeze, up to what a measurement finds sensible."""

    steps: int = 8
    """Steps a trajectory."""
    step_bytes: int = 1_000

    @property
    def trajectories(self) -> int:
        return 2 * self.items

    @classmethod
    def named(cls, text: str) -> "Size":
        """A name of SIZES, or a number of items. Raises ValueError for anything else."""
        try:
            return cls(SIZES[text] if text in SIZES else int(text))
        except ValueError:
            raise ValueError(f"SIZE is {text!r}; expected {', '.join(SIZES)} or a number of items.") from None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number. `limit` is what it must not exceed, or not fall below where `better` is "higher"."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    better: Literal["lower", "higher"] = "lower"
    with_: dict[str, Any] = field(default_factory=dict)
    """Under what circumstances: sizes, concurrency."""

    @property
    def holds(self) -> bool | None:
        """Whether the limit is kept; None where there is none."""
        if self.limit is None:
            return None
        return self.value <= self.limit if self.better == "lower" else self.value >= self.limit

    def as_json(self) -> str:
        facts = asdict(self) | {"value": round(self.value, 3), "holds": self.holds}
        return json.dumps({name.rstrip("_"): value for name, value in facts.items()}, ensure_ascii=False)


def percentile(samples: Sequence[float], percent: int) -> float:
    """The value that `percent` of 100 samples do not exceed, between the two nearest samples where none fits."""
    if len(samples) < 2:
        raise ValueError(f"A percentile needs 2 samples or more; got {len(samples)}.")
    return quantiles(samples, n=100, method="inclusive")[percent - 1]


class Stopwatch:
    """Collects durations, in milliseconds. Safe to share between threads."""

    def __init__(self) -> None:
        self.samples: list[float] = []

    @contextmanager
    def lap(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.samples.append((time.perf_counter() - started) * 1000)

    def p95(self) -> float:
        return percentile(self.samples, 95)


class Elapsed:
    """Seconds that a `with elapsed()` block took."""

    seconds = 0.0


@contextmanager
def elapsed() -> Iterator[Elapsed]:
    """Time one block: `with elapsed() as took: …` then `took.seconds`."""
    took, started = Elapsed(), time.perf_counter()
    yield took
    took.seconds = time.perf_counter() - started


class Memory:
    """How far the resident memory of a process, with its children, rose above where it began, in MB."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._before = self._peak = self._resident()
        self._done = threading.Event()

    @property
    def growth(self) -> float:
        return (self._peak - self._before) / 1024**2

    def _sample(self) -> None:
        while not self._done.wait(0.02):
            self._peak = max(self._peak, self._resident())

    def _resident(self) -> int:
        total: int = self._process.memory_info().rss
        for child in self._process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                total += child.memory_info().rss
        return total


@contextmanager
def watch_memory(pid: int | None = None) -> Iterator[Memory]:
    """Watch this process, or another, for the length of a block."""
    memory = Memory(psutil.Process(pid))
    thread = threading.Thread(target=memory._sample, daemon=True)
    thread.start()
    yield memory
    memory._done.set()
    thread.join()


def at_once(count: int, work: Callable[[int], None]) -> None:
    """Call `work(0)` … `work(count - 1)` in threads that begin together. The first error is raised here."""
    barrier, errors = threading.Barrier(count), []

    def begin(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def settle() -> None:
    """Have PostgreSQL do now what it would otherwise do during the measurement, for rows that were all written a moment ago."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("CHECKPOINT")


class Serving(NamedTuple):
    """Running web processes: where they answer, and their pids."""

    url: str
    pids: list[int]

    def cpu_seconds(self) -> float:
        """Processor time that the processes have used so far. What else the machine does hardly shows in it."""
        used = [psutil.Process(pid).cpu_times() for pid in self.pids]
        return sum(each.user + each.system for each in used)


@contextmanager
def serving(processes: int = 2) -> Iterator[Serving]:
    """Serve this measurement's database with the web processes that `make run` starts."""
    from apps.common.stack import paths, ports, programs, readiness
    from apps.common.stack.supervisor import stop_together

    stack = paths.for_var(Path(os.environ["RETRACE_VAR"]))
    with ports.listen(host="127.0.0.1", port=0, or_a_neighbour=False) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        env = programs.environment(stack)
        parts = programs.web(stack, listener=listener.fileno(), count=processes, env=env)
        try:
            for part in parts:
                part.start()
            readiness.wait_for(parts, readiness.page_answers(url))
            yield Serving(url, [part.process.pid for part in parts if part.process])
        finally:
            stop_together(parts)


def table(figures: Iterable[Figure]) -> str:
    """The figures for a person."""
    rows = []
    for figure in figures:
        bound = "" if figure.limit is None else f"{'≤' if figure.better == 'lower' else '≥'} {figure.limit:,.6g}"
        verdict = {True: "holds", False: "MISSED", None: ""}[figure.holds]
        rows.append((figure.name, f"{figure.value:,.1f} {figure.unit}", bound, verdict))
    width = max((len(row[0]) for row in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value:>20}  {bound:>14}  {verdict}" for name, value, bound, verdict in rows)
