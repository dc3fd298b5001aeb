"""Whether turn-level credit needs fewer rollouts: pairs of short GRPO runs, with and without it, evaluated after every step.

The two runs of a pair share seed, tasks, and first rollouts, so the variance between pairs is the noise of the comparison.
"""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student_t

from apps.demo import recipe
from bench.learning.harness import Bench, Outcome
from bench.learning.plain import PLAIN

PAIRS = 4
STEPS = 8
HELD_OUT = 100
ROLLOUTS_A_STEP = PLAIN["optimizer"]["batch_size"] * PLAIN["optimizer"]["gradient_accumulation"]
CREDITS = ("trajectory", "turn")

Curve = Sequence[float]
"""Success rate on the same held-out tasks before the first step and after each."""


def measured(bench: Bench) -> Outcome:
    """`before` is the mean success over the steps without turn-level credit, `after` with it; see `compared`. Requires the first model."""
    curves: dict[str, list[Curve]] = {credit: [] for credit in CREDITS}
    seconds, peak = 0.0, 0.0
    for number in range(PAIRS):
        for credit in CREDITS:
            name = f"credit-{credit}-{number}"
            report = bench.run(name, short_run(credit, seed=1000 * (bench.seed + 1) + number))
            curves[credit].append([value for _, value in bench.curve(name, "eval/success")])
            seconds += report["seconds"]
            peak = max(peak, report["peak_memory_mb"])
    comparison = compared(curves["trajectory"], curves["turn"])
    return Outcome(stage="credit", seed=bench.seed, n=PAIRS, seconds=seconds, peak_mb=peak, **comparison)


def short_run(credit: str, *, seed: int) -> dict[str, Any]:
    """The recipe's run, shortened and evaluated after every step."""
    return {
        **PLAIN,
        "kind": "grpo",
        "credit": credit,
        "optimizer": {**PLAIN["optimizer"], "max_steps": STEPS},
        "model": {"path": "../sft/model"},
        "tasks": {"levels": recipe.LEVELS, "count": 1000, "seed": seed},
        "held_out": HELD_OUT,
        "evaluate_every": 1,
        "checkpoints": {"every": 1000},
        "seed": seed,
    }


def compared(without: Sequence[Curve], with_it: Sequence[Curve]) -> dict[str, Any]:
    """Means over the steps, with the 95 % interval of the paired differences (Student's t) around `after`.

    `rollouts_to_level` is the number of rollouts after which the mean curves reached half of the better one's gain.
    """
    differences = [fmean(b[1:]) - fmean(a[1:]) for a, b in zip(without, with_it, strict=True)]
    half = float(student_t.ppf(0.975, len(differences) - 1)) * stdev(differences) / len(differences) ** 0.5
    after = fmean(fmean(curve[1:]) for curve in with_it)
    means = {"trajectory": mean_curve(without), "turn": mean_curve(with_it)}
    start = fmean(mean[0] for mean in means.values())
    level = start + (max(map(max, means.values())) - start) / 2
    needed = {credit: rollouts_to(level, mean) for credit, mean in means.items()}
    return {
        "before": fmean(fmean(curve[1:]) for curve in without),
        "after": after,
        "low": after - half,
        "high": after + half,
        "more": {"level": round(level, 4), "rollouts_to_level": needed, "curves": means, "differences": differences},
    }


def mean_curve(curves: Sequence[Curve]) -> list[float]:
    return [round(fmean(values), 4) for values in zip(*curves, strict=True)]


def rollouts_to(level: float, curve: Curve) -> int | None:
    """Number of rollouts after which the curve first reaches the level."""
    return next((step * ROLLOUTS_A_STEP for step, value in enumerate(curve) if value >= level), None)
