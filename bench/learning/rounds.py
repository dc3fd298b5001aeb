"""On-policy rounds of DPO: each round learns from pairs of the policy of the round before, and costs a third of the judgments of a single pass."""

from collections.abc import Callable
from functools import partial
from typing import Any

from apps.demo import recipe
from bench.learning.harness import Bench, Outcome, outcome
from bench.learning.pairs import pairs_by_outcome
from bench.learning.training import OWN_ROLLOUTS, PAIRS_A_TASK, ROLLOUTS_A_TASK, own_pairs, parted, settings

ROUNDS = 3
TASKS = 150
"""Training tasks played in a round, other ones in each. More than a third of `OWN_ROLLOUTS`, since a better policy leaves fewer failures to pair."""
OPTIMIZER: dict[str, Any] = {**recipe.DPO, "warmup_steps": 2}
"""A round has about nine steps."""


def dpo_rounds(bench: Bench, *, stage: str, scope: str) -> Outcome:
    """DPO with as many pairs in all as `dpo`; `rounds` is the held-out success after each round."""
    _, held_out = own_pairs(bench)
    learned, _ = parted(bench.trajectories("own"))
    budget = len(pairs_by_outcome(learned, per_task=PAIRS_A_TASK)) // ROUNDS
    before, policy = bench.success("sft"), "sft"
    reports, after = [], []
    for number in range(1, ROUNDS + 1):
        rollouts = f"{stage}-own-{number}"
        tasks = {**OWN_ROLLOUTS, "count": TASKS, "seed": OWN_ROLLOUTS["seed"] + number}
        bench.play(rollouts, policy, tasks=tasks, samples=ROLLOUTS_A_TASK)
        pairs = pairs_by_outcome(bench.trajectories(rollouts), per_task=PAIRS_A_TASK)[:budget]
        train = bench.write(f"{rollouts}.jsonl", pairs)
        config = {"kind": "dpo", **settings(bench, OPTIMIZER, train, held_out), "scope": scope}
        config["model"] = {"path": f"../{policy}/model"}
        policy = f"{stage}-{number}"
        reports.append(bench.run(policy, config))
        after.append(bench.success(policy))
    report = {
        "seconds": sum(report["seconds"] for report in reports),
        "peak_memory_mb": max(report["peak_memory_mb"] for report in reports),
    }
    return outcome(
        bench,
        stage,
        report,
        before=before.value,
        after=after[-1],
        gain=bench.difference("sft", policy)._asdict(),
        pairs=sum(report["rows"]["train"] for report in reports),
        rounds=[success.value for success in after],
    )


DPO_ROUNDS: dict[str, Callable[[Bench], Outcome]] = {
    stage: partial(dpo_rounds, stage=stage, scope=scope)
    for stage, scope in (("dpo-rounds", "trajectory"), ("step-dpo-rounds", "step"))
}
