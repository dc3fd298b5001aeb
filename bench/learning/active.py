"""Which pairs to ask about: what reward models and policies learn from pairs chosen by the orders of a queue, against random pairs.

An ensemble learns from random pairs and chooses as many again among the others; the models are then trained anew on both. The goal is the accuracy
of twice as many random pairs. All are labeled by the simulated annotators' majority.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

from apps.annotation.queues.informativeness import chance_of_margin, informative, uncertain
from apps.demo import recipe
from bench.learning.annotators import majority_row, which_differ
from bench.learning.harness import Bench, Outcome, outcome
from bench.learning.pairs import pair
from bench.learning.training import from_pairs, parted, play_own, settings
from contract.trajectory import Trajectory
from trainer.statistics import proportion

FIRST = 60
MODELS = 3
POOL_PAIRS_A_TASK = 3
HELD_OUT_PAIRS_A_TASK = 6
DPO_STEPS = 60
"""For every choice of pairs, so that a policy isn't better merely because it was trained longer."""


class Candidate(NamedTuple):
    """A pair that may be asked about."""

    better: Trajectory
    worse: Trajectory
    row: dict[str, Any]
    """The preference row that the annotators' answer gives."""


def active(bench: Bench) -> Outcome:
    """`before` is the mean accuracy with 2 · FIRST random pairs, `after` with as many of which half are informative; `accuracy` has it by order
    and number of pairs. Held-out pairs are of other tasks, with the true labels.
    """
    play_own(bench)
    learned, others = parted(bench.trajectories("own"))
    pool = candidates(learned, seed=bench.seed)
    chance = random.Random(bench.seed)
    held_out = bench.write(
        "active-held-out.jsonl",
        [pair(*both) for both in which_differ(others, per_task=HELD_OUT_PAIRS_A_TASK, chance=chance)],
    )
    rollouts = {run.id: run for candidate in pool for run in (candidate.better, candidate.worse)}
    bench.write("active-runs.jsonl", [run.to_json() for run in rollouts.values()])
    first, rest = pool[:FIRST], pool[FIRST:]

    def trained(name: str, chosen: Sequence[Candidate]) -> list[dict[str, Any]]:
        rows = bench.write(f"active-{name}.jsonl", [candidate.row for candidate in chosen])
        config = {"kind": "reward_model", **settings(bench, recipe.REWARD_MODEL, rows, held_out)}
        return [bench.run(f"active-{name}-{model}", {**config, "seed": model}) for model in range(MODELS)]

    reports = {f"random-{FIRST}": trained(f"random-{FIRST}", first)}
    rewards = [bench.rewards(f"active-random-{FIRST}-{model}", "active-runs.jsonl") for model in range(MODELS)]
    for size in (2 * FIRST, 4 * FIRST):
        reports[f"random-{size}"] = trained(f"random-{size}", pool[:size])
    for order, score in orders(rewards).items():
        chosen = sorted(rest, key=score, reverse=True)[:FIRST]
        reports[f"{order}-{2 * FIRST}"] = trained(f"{order}-{2 * FIRST}", [*first, *chosen])
    accuracy = {
        name: round(fmean(report["held_out_accuracy"]["value"] for report in of_models), 4)
        for name, of_models in reports.items()
    }
    all_reports = [report for of_models in reports.values() for report in of_models]
    total = {
        "seconds": sum(report["seconds"] for report in all_reports),
        "peak_memory_mb": max(report["peak_memory_mb"] for report in all_reports),
    }
    mean, n = accuracy[f"informative-{2 * FIRST}"], all_reports[0]["held_out_accuracy"]["n"]
    after = proportion(round(mean * n), n)._replace(value=mean)
    return outcome(bench, "active", total, before=accuracy[f"random-{2 * FIRST}"], after=after, accuracy=accuracy)


def active_dpo(bench: Bench) -> Outcome:
    """Step-level DPO on each choice of pairs of `active`. `gains` has the gain in success by choice; `after` is with 2 · FIRST random pairs."""
    optimizer = {**recipe.DPO, "max_steps": DPO_STEPS}
    outcomes = {
        name: from_pairs(
            bench,
            f"active-dpo-{name}",
            (f"../active-{name}.jsonl", "../active-held-out.jsonl"),
            scope="step",
            optimizer=optimizer,
        )
        for name in active(bench).more["accuracy"]
    }
    gains = {name: result.more["gain"] for name, result in outcomes.items()}
    return replace(outcomes[f"random-{2 * FIRST}"], stage="active-dpo", more={"gains": gains})


def candidates(rollouts: list[Trajectory], *, seed: int) -> list[Candidate]:
    """Pairs of rollouts of the same task, in random order. A pair's label doesn't depend on when it's asked for."""
    chance = random.Random(seed)
    pairs = list(which_differ(rollouts, per_task=POOL_PAIRS_A_TASK, chance=chance))
    chance.shuffle(pairs)
    return [
        Candidate(better, worse, majority_row(better, worse, random.Random(f"{seed}/{number}")))
        for number, (better, worse) in enumerate(pairs)
    ]


def orders(rewards: Sequence[dict[str, float]]) -> dict[str, Callable[[Candidate], float]]:
    """Scores of candidates by the ensemble's rewards or by the policy's own probabilities; the highest are asked about first."""

    def chances(candidate: Candidate) -> list[float]:
        return [chance_of_margin(of_model[candidate.better.id] - of_model[candidate.worse.id]) for of_model in rewards]

    return {
        "uncertain": lambda candidate: uncertain(chances(candidate)),
        "informative": lambda candidate: informative(chances(candidate)),
        "undecided": lambda candidate: -gap(candidate.better, candidate.worse),
    }


def gap(run: Trajectory, other: Trajectory) -> float:
    """How far apart the policy's log-probabilities of the first differing turns are, in nats: 0 where its decision was even."""
    for step, other_step in zip(run.steps, other.steps, strict=False):
        if step.message != other_step.message:
            return abs(sum(step.info["logprobs"]) - sum(other_step.info["logprobs"]))
    return float("inf")
