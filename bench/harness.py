"""Shared by the benchmarks: sizes, figures, timers, a memory meter, and web processes.

A benchmark is a module of this package with one function:

    def measure(size: Size) -> Iterator[Figure]: ...

It gets its own empty, migrated database. `python -m bench` runs every benchmark, `python -m bench 1000 importing`
runs one of them with 1,000 items.
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
    """The amount of data. `full` is the size for which the limits are stated."""

    items: int
    """Items in the queue; also preference pairs to freeze, up to a limit that the benchmark sets."""

    steps: int = 8
    """Steps per trajectory."""
    step_bytes: int = 1_000

    @property
    def trajectories(self) -> int:
        return 2 * self.items

    @classmethod
    def named(cls, text: str) -> "Size":
        """A name from SIZES, or a number of items. Raises ValueError for anything else."""
        try:
            return cls(SIZES[text] if text in SIZES else int(text))
        except ValueError:
            raise ValueError(f"SIZE is {text!r}; expected {', '.join(SIZES)} or a number of items.") from None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number. `limit` is an upper bound, or a lower bound if `better` is "higher"."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    better: Literal["lower", "higher"] = "lower"
    with_: dict[str, Any] = field(default_factory=dict)
    """Circumstances: sizes, concurrency."""

    @property
    def holds(self) -> bool | None:
        """Whether the limit is met; None if there is none."""
        if self.limit is None:
            return None
        return self.value <= self.limit if self.better == "lower" else self.value >= self.limit

    def as_json(self) -> str:
        columns = asdict(self) | {"value": round(self.value, 3), "holds": self.holds}
        return json.dumps({name.rstrip("_"): value for name, value in columns.items()}, ensure_ascii=False)


def percentile(samples: Sequence[float], percent: int) -> float:
    """The percentile of the samples, interpolated between the nearest two."""
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
    """Duration of an `elapsed()` block in seconds."""

    seconds = 0.0


@contextmanager
def elapsed() -> Iterator[Elapsed]:
    """Time one block: `with elapsed() as took: …` then `took.seconds`."""
    took, started = Elapsed(), time.perf_counter()
    yield took
    took.seconds = time.perf_counter() - started


class Memory:
    """Peak growth of the resident memory of a process and its children, in MB."""

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
    """Watch the memory of this process, or another, during a block."""
    memory = Memory(psutil.Process(pid))
    thread = threading.Thread(target=memory._sample, daemon=True)
    thread.start()
    yield memory
    memory._done.set()
    thread.join()


def at_once(count: int, work: Callable[[int], None]) -> None:
    """Call `work(0)` … `work(count - 1)` in threads that start together. Raises the first error."""
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
    """Run PostgreSQL's pending maintenance now, since all rows were just written, instead of during the measurement."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("CHECKPOINT")


class Serving(NamedTuple):
    """Running web processes: their URL and pids."""

    url: str
    pids: list[int]

    def cpu_seconds(self) -> float:
        """CPU time used by the processes so far. It's hardly affected by other load on the machine."""
        used = [psutil.Process(pid).cpu_times() for pid in self.pids]
        return sum(usage.user + usage.system for usage in used)


@contextmanager
def serving(processes: int = 2) -> Iterator[Serving]:
    """Serve this benchmark's database with the same web processes as `make run`."""
    from apps.common.stack import paths, ports, programs, readiness
    from apps.common.stack.supervisor import stop_together

    stack = paths.for_var(Path(os.environ["RETRACE_VAR"]))
    with ports.listen(host="127.0.0.1", port=0, or_next_free=False) as listener:
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
    """The figures as a text table."""
    rows = []
    for figure in figures:
        bound = "" if figure.limit is None else f"{'≤' if figure.better == 'lower' else '≥'} {figure.limit:,.6g}"
        verdict = {True: "holds", False: "MISSED", None: ""}[figure.holds]
        rows.append((figure.name, f"{figure.value:,.1f} {figure.unit}", bound, verdict))
    width = max((len(row[0]) for row in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value:>20}  {bound:>14}  {verdict}" for name, value, bound, verdict in rows)
