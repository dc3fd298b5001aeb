"""DPO from the votes of a simulated panel: one or three per pair, with majority labels or with Dawid–Skene labels and weights."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from bench.learning import panel
from bench.learning.annotators import preferences, progress, quality, which_differ
from bench.learning.harness import Bench, Outcome
from bench.learning.training import from_pairs, parted, play_own, written
from contract.trajectory import Trajectory

PAIRS_A_TASK = 1


class Labels(NamedTuple):
    """How pairs are labeled."""

    overlap: int
    share: float
    """Share of the pairs used. A third of them with three votes cost as many judgments as all with one."""
    aggregated: bool
    measure: Callable[[Trajectory], Any] = quality
    """Pairs that are equal by it aren't sent to annotators."""


LABELS = {
    "once": Labels(1, 1.0, aggregated=False),
    "majority": Labels(3, 1.0, aggregated=False),
    "weighted": Labels(3, 1.0, aggregated=True),
    "third-majority": Labels(3, 1 / 3, aggregated=False),
    "third-weighted": Labels(3, 1 / 3, aggregated=True),
    "progress-majority": Labels(3, 1.0, aggregated=False, measure=progress),
    "progress-weighted": Labels(3, 1.0, aggregated=True, measure=progress),
}
"""Single votes are never aggregated: they say nothing about the annotators, so all weights would be equal."""


def human_dpo(bench: Bench, *, labels: str, scope: str) -> Outcome:
    """`judgments` is the cost of the pairs, and `right` the weighted share whose chosen side is the better one. Compared task by task:
    `less_majority`, weighted labels with majority labels from the same votes; `less_once`, three votes on a third of the pairs with one on each;
    `less_all`, the pairs that differ in progress with all.
    """
    prefix = "human-step-dpo" if scope == "step" else "human-dpo"
    rule = LABELS[labels]
    play_own(bench)
    learned, others = parted(bench.trajectories("own"))
    chance = random.Random(bench.seed)
    pairs = list(which_differ(learned, per_task=PAIRS_A_TASK, chance=chance, measure=rule.measure))
    chance.shuffle(pairs)
    judged = panel.judged(pairs[: round(rule.share * len(pairs))], overlap=rule.overlap, seed=bench.seed)
    chosen = panel.by_dawid_skene(judged) if rule.aggregated else panel.by_majority(judged)
    rows = [pair.row(side, weight) for pair, (side, weight) in zip(judged, chosen, strict=True) if weight > 0]
    held_out = preferences(others, per_task=PAIRS_A_TASK, seed=bench.seed, measure=rule.measure)
    result = from_pairs(bench, f"{prefix}-{labels}", written(bench, f"labels-{labels}", rows, held_out), scope=scope)
    result.more["judgments"] = rule.overlap * len(judged)
    result.more["right"] = round(panel.share_right(judged, chosen), 4)
    compared = {
        "less_majority": rule.aggregated and labels.replace("weighted", "majority"),
        "less_once": rule.share < 1 and "once",
        "less_all": rule.measure is progress and labels.removeprefix("progress-"),
    }
    for name, other in compared.items():
        if other:
            human_dpo(bench, labels=other, scope=scope)
            result.more[name] = bench.difference(f"{prefix}-{other}", f"{prefix}-{labels}")._asdict()
    return result


HUMAN_DPO: dict[str, Callable[[Bench], Outcome]] = {
    f"human-{name}-{labels}": partial(human_dpo, labels=labels, scope=scope)
    for name, scope in (("dpo", "trajectory"), ("step-dpo", "step"))
    for labels in LABELS
}
