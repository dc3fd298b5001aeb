"""How far a policy can follow a reward model: learned reward and true success, by distance from the first model.

After Gao et al. (2022, arXiv 2210.10760), who draw both over the KL divergence from the initial policy, for several amounts of preferences.
"""

from dataclasses import replace
from statistics import fmean
from typing import Any

from apps.demo import recipe
from bench.learning.annotators import success_first
from bench.learning.harness import Bench, Outcome
from bench.learning.human_grpo import online_on, people_pairs, reward_model
from trainer.alarms.remedies import FIRST_BETA
from trainer.records import read_lines

SHARES = {"all": 1, "third": 3, "ninth": 9}
"""Divisors of the number of preferences."""
FAR: dict[str, Any] = {
    "optimizer": {**recipe.SHORT["optimizer"], "max_steps": recipe.ONLINE["optimizer"]["max_steps"]},
    "evaluate_every": recipe.ONLINE["evaluate_every"],
    "held_out": 150,
    "mask_cut_off": True,
    "beta": 1e-6,
}
"""Three times as many steps as `human-grpo`, at its constant rate. The KL divergence is only logged if it has a weight;
this one is too small to matter."""


def over_optimization(bench: Bench) -> Outcome:
    """GRPO on the reward model alone. The outcome is that of all preferences. `shares` has those of each amount, and of all with a KL penalty, with curves of
    (step, KL divergence per token in nats, learned reward, success) at the evaluations.
    """
    rows, held_out = people_pairs(bench)
    preferences = [row for _, row in read_lines(bench.folder / rows.removeprefix("../"))]
    outcomes: dict[str, Outcome] = {}
    for name, divisor in SHARES.items():
        some = bench.write(f"people-{name}.jsonl", preferences[: len(preferences) // divisor])
        model = reward_model(bench, f"over-rm-{name}", (some, held_out))
        outcomes[name] = followed(bench, f"over-{name}", f"over-rm-{name}", model)
        if divisor == 1:
            penalized = f"{name}-penalized"
            outcomes[penalized] = followed(bench, f"over-{penalized}", f"over-rm-{name}", model, beta=FIRST_BETA)
    return with_shares(outcomes["all"], "over-optimization", outcomes)


def over_optimization_success_first(bench: Bench) -> Outcome:
    """The same, with the reward model of `human-grpo-success-first`: no preferences between two failures."""
    name = "success-first"
    model = reward_model(bench, f"{name}-rm", people_pairs(bench, name, success_first))
    outcome = followed(bench, f"over-{name}", f"{name}-rm", model)
    return with_shares(outcome, f"over-optimization-{name}", {name: outcome})


def with_shares(whole: Outcome, stage: str, outcomes: dict[str, Outcome]) -> Outcome:
    shares = {name: outcome.more for name, outcome in outcomes.items()}
    return replace(whole, stage=stage, more={"gain": whole.more["gain"], "shares": shares})


def followed(bench: Bench, run: str, model: str, report: dict[str, Any], *, beta: float = 0.0) -> Outcome:
    """GRPO on the reward model of the run `model` alone, of which `report` is the report."""
    settings = FAR | {"beta": beta} if beta else FAR
    result = online_on(bench, run, model, {"learned_outcome": 1.0}, **settings)
    details = {"pairs": report["rows"]["train"], "ranked": report["held_out_accuracy"], "beta": beta}
    success = {"after": result.after, "low": result.low, "high": result.high, "gain": result.more["gain"]}
    return replace(result, more={**details, **success, "curve": curve(bench, run)})


def curve(bench: Bench, run: str) -> list[tuple[int, float, float, float]]:
    """(step, KL divergence, learned reward, success) at each evaluation; the divergence is the mean of the steps since the one before."""
    learned = dict(bench.curve(run, "eval/rewards/learned_outcome/mean"))
    divergences = bench.curve(run, "kl")
    points, before = [], -1
    for step, success in bench.curve(run, "eval/success"):
        since = [value for at, value in divergences if before < at <= step]
        points.append((step, fmean(since) if since else 0.0, learned[step], success))
        before = step
    return points
