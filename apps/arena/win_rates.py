"""Statistics of blind judgments of two policies. Pure: numbers in, numbers out.

The unit of analysis is the task. Several pairs of one task, and several annotators of one pair, share that task's
peculiarities, so they're averaged first and count once.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from apps.common import proportions

GRID = 2000
"""Number of candidate means between 0 and 1 that the confidence sequence tests, which is the resolution of its intervals."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with its bounds, all in the unit of the estimate; `n` is the number of tasks."""

    estimate: float | None
    low: float
    high: float
    n: int


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts of judgments, from policy A's side."""

    wins: int = 0
    ties: int = 0
    losses: int = 0
    both_bad: int = 0

    @property
    def judgments(self) -> int:
        return self.wins + self.ties + self.losses + self.both_bad


def tally(judgments: Iterable[tuple[int, bool]]) -> Tally:
    """Count (strength in favor of A, both bad) pairs. "Both bad" is a tie that is counted separately."""
    wins = ties = losses = both_bad = 0
    for strength, is_both_bad in judgments:
        if is_both_bad:
            both_bad += 1
        elif strength > 0:
            wins += 1
        elif strength < 0:
            losses += 1
        else:
            ties += 1
    return Tally(wins=wins, ties=ties, losses=losses, both_bad=both_bad)


def score(strength: int) -> float:
    """1 if A is preferred, 0 if B is, ½ for a tie. The strength is ignored, since people use grades differently."""
    return 0.5 if strength == 0 else float(strength > 0)


def task_scores(pairs: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, float]:
    """Each task's score for A: the mean over its pairs of the mean over that pair's judgments.

    pairs: task -> pair -> strengths in favor of A. Tasks without judgments are left out.
    """
    scores = {}
    for task, judged in pairs.items():
        means = [sum(map(score, strengths)) / len(strengths) for strengths in judged.values() if strengths]
        if means:
            scores[task] = sum(means) / len(means)
    return scores


def with_ties(
    judged: Mapping[str, Mapping[str, Sequence[int]]],
    alike: Iterable[tuple[str, int]],
    *,
    places: Mapping[str, int],
    all_known: bool,
) -> dict[str, dict[str, Sequence[int]]]:
    """Judged tasks in the order in which they became complete, interleaved with tasks of indistinguishable pairs, which are ties without judgments.

    judged: task -> pair -> strengths in favor of A. alike: (task, place) of each indistinguishable pair. places: position of each task's last judged
    pair in the same order. A task that has only such ties is known from the start, but counting all of them first would bias the sequential bound
    towards a tie. So each counts once a judged task at or after its place is complete, as if it had been judged in turn, and the rest count at the end.
    """
    ties: dict[str, dict[str, Sequence[int]]] = defaultdict(dict)
    last: dict[str, int] = {}
    for task, place in alike:
        ties[task][f"alike {len(ties[task])}"] = [0]
        last[task] = place
    waiting = deque(sorted((task for task in ties if task not in places), key=lambda task: last[task]))
    combined: dict[str, dict[str, Sequence[int]]] = {}
    for task, pairs in judged.items():
        while waiting and last[waiting[0]] <= places[task]:
            tied = waiting.popleft()
            combined[tied] = ties[tied]
        combined[task] = {**pairs, **ties.get(task, {})}
    return combined | {task: ties[task] for task in waiting if all_known}


def confidence_sequence(values: Sequence[float], *, alpha: float = 0.05) -> Interval:
    """The mean of values in [0, 1] with bounds that hold simultaneously at all times, however often they're looked at.

    The hedged-capital confidence sequence by betting (Waudby-Smith & Ramdas, 2024, JRSS-B 86(1), theorem 3) with predictable
    plug-in bets (their eq. 26) truncated at ½ and running intersection. values: (n,), independent, in the order in
    which they became known. With no values the interval is [0, 1].
    """
    if not values:
        return Interval(estimate=None, low=0.0, high=1.0, n=0)
    sample = np.asarray(values, dtype=np.float64)
    if sample.min() < 0 or sample.max() > 1:
        raise ValueError(f"values run from {sample.min()} to {sample.max()}; expected them within 0 and 1.")
    candidates: NDArray[np.float64] = np.linspace(0.0, 1.0, GRID + 1)
    up = np.zeros_like(candidates)  # log capital of the bet that the mean is above the candidate
    down = np.zeros_like(candidates)
    low, high = 0.0, 1.0
    total, spread = 0.5, 0.25  # the paper's priors: mean ½, variance ¼
    threshold = log(1 / alpha) + log(2)  # each side holds half of the capital
    with np.errstate(divide="ignore"):
        limit_up = 0.5 / candidates
        limit_down = 0.5 / (1 - candidates)
    for index, value in enumerate(sample):
        t = index + 1
        # eq. 26 divides by σ̂² t log(1 + t), where σ̂², from the values before this one, is spread / t
        bet = sqrt(2 * log(2 / alpha) / (spread * log(1 + t)))
        up += np.log1p(np.minimum(bet, limit_up) * (value - candidates))
        down += np.log1p(-np.minimum(bet, limit_down) * (value - candidates))
        total += value
        mean = total / (t + 1)
        spread += (value - mean) ** 2
        kept = candidates[np.maximum(up, down) < threshold]
        if kept.size:  # an empty set has probability below alpha; the bounds then stay unchanged
            low, high = max(low, float(kept[0])), min(high, float(kept[-1]))
    estimate = float(sample.mean())
    return Interval(estimate=estimate, low=min(low, estimate), high=max(high, estimate), n=len(sample))


def difference(a: Mapping[str, float], b: Mapping[str, float], *, alpha: float = 0.05) -> Interval:
    """Mean of a − b over the tasks that both have (paired, so that task difficulty cancels), with anytime-valid bounds in [−1, 1]."""
    shared = [task for task in a if task in b]
    half = confidence_sequence([(a[task] - b[task] + 1) / 2 for task in shared], alpha=alpha)
    return Interval(
        estimate=None if half.estimate is None else 2 * half.estimate - 1,
        low=2 * half.low - 1,
        high=2 * half.high - 1,
        n=half.n,
    )


def success_rate(successes: int, n: int) -> Interval:
    """The success rate of n independent trajectories with its 95% Wilson score interval."""
    if n == 0:
        return Interval(estimate=None, low=0.0, high=1.0, n=0)
    low, high = proportions.wilson(successes, n)
    return Interval(estimate=successes / n, low=low, high=high, n=n)


@dataclass(frozen=True, kw_only=True)
class SideBias:
    """How often the left side won, and the p-value if sides didn't matter."""

    left: int
    decided: int
    p_value: float


def side_bias(judgments: Iterable[tuple[int, bool | None]]) -> SideBias:
    """Side bias from (strength in favor of A, A was left) pairs, ignoring ties and unknown sides. Exact two-sided binomial test."""
    left_wins = decided = 0
    for strength, a_was_left in judgments:
        if strength and a_was_left is not None:
            decided += 1
            left_wins += (strength > 0) == a_was_left
    p_value = proportions.sign_test(left_wins, decided) if decided else 1.0
    return SideBias(left=left_wins, decided=decided, p_value=p_value)
