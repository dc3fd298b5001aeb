"""Measures how long a run's steps and evaluations take, from its events. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

from contract.events import CheckpointSaved, Metrics, Progress, StampedEvent, Started

WINDOW_STEPS = 200
"""Window in steps: enough to average over checkpoints, few enough to notice a slowdown."""


class Timings(NamedTuple):
    """Measured seconds, if known."""

    step: float | None
    """Per typical step."""
    evaluation: float | None
    """Per typical evaluation."""


class Stopwatch:
    """Measures one attempt. A step lasts from one progress event to the next, minus evaluations in between; an evaluation
    lasts from the preceding event to its metrics."""

    def __init__(self) -> None:
        self._reset(at=0.0, step=0)

    def _reset(self, *, at: float, step: int) -> None:
        self._steps: deque[float] = deque(maxlen=WINDOW_STEPS)
        self._evaluations: dict[int, float] = {}
        self._step, self._stepped_at, self._last_event_at = step, at, at
        self._evaluating = 0.0

    def update(self, events: Iterable[StampedEvent]) -> Timings:
        for at, event in ((stamped.at, stamped.event) for stamped in events):
            match event:
                case Started(step=step):
                    self._reset(at=at, step=step)
                case Progress(step=step) if step > self._step:
                    count = step - self._step
                    self._steps += [max(0.0, at - self._stepped_at - self._evaluating) / count] * count
                    self._step, self._stepped_at, self._evaluating = step, at, 0.0
                case Metrics(step=step, values=values) if any(name.startswith("eval/") for name in values):
                    self._evaluations[step] = self._evaluations.get(step, 0.0) + at - self._last_event_at
                    self._evaluating += at - self._last_event_at
            if isinstance(event, Started | Progress | Metrics | CheckpointSaved):
                self._last_event_at = at
        return Timings(
            step=fmean(self._steps) if self._steps else None,
            evaluation=fmean(self._evaluations.values()) if self._evaluations else None,
        )


DEFAULT_EVALUATIONS = 10
"""By default, the trainer evaluates before training, after each tenth, and at the end."""


def evaluations_in(total: int, *, every: int) -> int:
    """Evaluations of a whole run of this many steps, including the one before the first."""
    return 1 + remaining_evaluations(every, step=0, total=total)


def remaining_evaluations(every: int, *, step: int, total: int) -> int:
    """Evaluations after this step, including the last one. every: in steps; 0 for each tenth."""
    if step >= total:
        return 0
    every = every or max(1, total // DEFAULT_EVALUATIONS)
    return (total - 1) // every - step // every + 1
