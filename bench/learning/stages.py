"""The stages, one function each. Each starts from the model that `sft` makes with the same seed."""

from collections.abc import Callable
from typing import Any

from apps.demo import recipe
from bench.learning import credit
from bench.learning.active import active, active_dpo
from bench.learning.corrections import CORRECTIONS
from bench.learning.curation import curation
from bench.learning.harness import Bench, Outcome, outcome
from bench.learning.human_dpo import HUMAN_DPO
from bench.learning.human_grpo import HUMAN_GRPO, human_grpo, human_grpo_masked
from bench.learning.over_optimization import over_optimization, over_optimization_success_first
from bench.learning.pairs import failures, pairs_by_branch, pairs_by_outcome, pairs_by_value
from bench.learning.plain import GRADED, PLAIN, PLAIN_RLOO
from bench.learning.rounds import DPO_ROUNDS
from bench.learning.training import (
    PAIRS_A_TASK,
    ROLLOUTS_A_TASK,
    demonstrate,
    first_model,
    from_pairs,
    online,
    online_outcome,
    own_pairs,
    parted,
    play_own,
    settings,
    written,
)
from contract.trajectory import Trajectory
from trainer.statistics import Proportion

Stage = Callable[[Bench], Outcome]
BRANCHES = 4
PROCESS_WEIGHT = 0.4
"""Less than half of the outcome's, so that a failure can't be worth more than a success."""


def sft(bench: Bench) -> Outcome:
    """SFT on imperfect demonstrations, from random weights; `demonstrator` is the success of the imitated policy."""
    shown = demonstrate(bench)
    report = first_model(bench)
    return outcome(
        bench, "sft", report, before=None, after=bench.success("sft"), demonstrator=shown["success"]["value"]
    )


def grpo(bench: Bench) -> Outcome:
    """GRPO with the presets' choices."""
    return online(bench, "grpo", recipe.ONLINE, kind="grpo")


def rloo(bench: Bench) -> Outcome:
    """RLOO with the presets' choices."""
    return online(bench, "rloo", recipe.ONLINE, kind="rloo")


def grpo_plain(bench: Bench) -> Outcome:
    """GRPO with none of the presets' choices."""
    return online(bench, "grpo-plain", PLAIN, kind="grpo")


def rloo_plain(bench: Bench) -> Outcome:
    return online(bench, "rloo-plain", PLAIN_RLOO, kind="rloo")


def grpo_masked(bench: Bench) -> Outcome:
    """Like `grpo-plain`, with cut-off turns masked in the loss."""
    return online(bench, "grpo-masked", {**recipe.SHORT, "rewards": GRADED}, kind="grpo")


def grpo_long(bench: Bench) -> Outcome:
    """Like `grpo`, with a graded reward: three times the steps of `grpo-masked`, with a decaying learning rate."""
    return online(bench, "grpo-long", {**recipe.ONLINE, "rewards": GRADED}, kind="grpo")


def grpo_success(bench: Bench) -> Outcome:
    """Like `grpo-masked`, with success as the only reward, so that all failures are worth the same."""
    return online(bench, "grpo-success", recipe.SHORT, kind="grpo")


def outside(bench: Bench) -> Outcome:
    """Like `grpo-success`, but trained by the running product, with an agent playing in its own process; `less_inside` compares the two, task
    by task.
    """
    grpo_success(bench)
    config = {
        "model": str(bench.folder / "sft" / "model"),
        "levels": recipe.LEVELS,
        "seed": 200 + bench.seed,
        "config": {**recipe.SHORT, "seed": bench.seed},
    }
    report = bench.product("outside", config)
    result = online_outcome(bench, "outside", report, before=bench.success("sft").value)
    result.more["less_inside"] = bench.difference("grpo-success", "outside")._asdict()
    return result


def grpo_turn_credit(bench: Bench) -> Outcome:
    """Like `grpo-plain`, with turn-level credit."""
    return online(bench, "grpo-turn-credit", PLAIN, kind="grpo", credit="turn")


def credit_compared(bench: Bench) -> Outcome:
    """How fast GRPO initially learns, with and without turn-level credit."""
    first_model(bench)
    return credit.measured(bench)


def dpo(bench: Bench) -> Outcome:
    """DPO on pairs of its own rollouts, success against failure."""
    return from_pairs(bench, "dpo", own_pairs(bench), scope="trajectory")


def step_dpo(bench: Bench) -> Outcome:
    """DPO on the same pairs, each side cut after the first differing turn; `less_dpo` compares the two, task by task."""
    dpo(bench)
    result = from_pairs(bench, "step-dpo", own_pairs(bench), scope="step")
    result.more["less_dpo"] = bench.difference("dpo", "step-dpo")._asdict()
    return result


def error_dpo(bench: Bench) -> Outcome:
    """DPO on pairs that diverge at the failed run's first error, each side cut after that turn; `whole` is trained on the same pairs uncut."""
    return cut_and_whole(bench, "error-dpo", branched_pairs(bench))


def value_dpo(bench: Bench) -> Outcome:
    """DPO on pairs that diverge at the turn that lost the most value, each side cut after that turn; `whole` is trained on them uncut."""
    return cut_and_whole(bench, "value-dpo", valued_pairs(bench))


def reward_model(bench: Bench) -> Outcome:
    """Accuracy on held-out pairs of a success and a failure; chance is 0.5."""
    rows, held_out = own_pairs(bench)
    report = bench.run("reward-model", {"kind": "reward_model", **settings(bench, recipe.REWARD_MODEL, rows, held_out)})
    ranked = report["held_out_accuracy"]
    after = Proportion(ranked["value"], ranked["low"], ranked["high"], ranked["n"])
    return outcome(bench, "reward_model", report, before=0.5, after=after)


def prm(bench: Bench) -> Outcome:
    """`f1` of locating the first error in held-out runs, with the accuracy on turns and its interval."""
    play_own(bench)
    learned, others = ([run.to_json() for run in part if run.steps] for part in parted(bench.trajectories("own")))
    config = {"kind": "process_reward_model", **settings(bench, recipe.PRM, *written(bench, "judged", learned, others))}
    report = bench.run("prm", config)
    judged = report["step_accuracy"]
    after = Proportion(judged["value"], judged["low"], judged["high"], judged["n"])
    return outcome(bench, "prm", report, before=None, after=after, first_error=report["first_error"])


def process(bench: Bench) -> Outcome:
    """Like `grpo-success`, with the PRM's scores added to the reward and turn-level credit; `less_outcome` compares the two, task by task."""
    grpo_success(bench)
    prm(bench)
    terms = [
        *recipe.SHORT["rewards"]["terms"],
        {"component": "learned_process", "weight": PROCESS_WEIGHT, "path": "../prm/model"},
    ]
    result = online(bench, "process", {**recipe.SHORT, "rewards": {"terms": terms}}, kind="grpo", credit="turn")
    result.more["less_outcome"] = bench.difference("grpo-success", "process")._asdict()
    return result


STAGES: dict[str, Stage] = {
    "sft": sft,
    "grpo": grpo,
    "rloo": rloo,
    "grpo-plain": grpo_plain,
    "rloo-plain": rloo_plain,
    "dpo": dpo,
    "step-dpo": step_dpo,
    "error-dpo": error_dpo,
    "value-dpo": value_dpo,
    "reward_model": reward_model,
    "prm": prm,
    "grpo-turn-credit": grpo_turn_credit,
    "credit": credit_compared,
    "human-grpo": human_grpo,
    "human-grpo-masked": human_grpo_masked,
    **HUMAN_GRPO,
    "over-optimization": over_optimization,
    "over-optimization-success-first": over_optimization_success_first,
    **HUMAN_DPO,
    **DPO_ROUNDS,
    **CORRECTIONS,
    "active": active,
    "active-dpo": active_dpo,
    "curation": curation,
    "process": process,
    "grpo-masked": grpo_masked,
    "grpo-long": grpo_long,
    "grpo-success": grpo_success,
    "outside": outside,
}


def branched_pairs(bench: Bench) -> tuple[str, str]:
    """Like `own_pairs`, of failures and successes that continue from their first errors; limited to the same number of training pairs."""
    learned, others, branches = branched(bench, "branches", seed=10_000 * bench.seed)
    train = pairs_by_branch(learned, branches, per_task=PAIRS_A_TASK)
    held_out = pairs_by_branch(others, branches, per_task=ROLLOUTS_A_TASK)
    return written(bench, "branched", train[: count_of_pairs(learned)], held_out)


def valued_pairs(bench: Bench) -> tuple[str, str]:
    """Like `own_pairs`, of failures and successes that diverge at the turn that lost the most value."""
    seed = 10_000 * bench.seed + 5_000
    learned, others, branches = branched(bench, "values", seed=seed, turns="all", at_most=2)
    train = pairs_by_value(failures(learned), branches)
    return written(bench, "valued", train[: count_of_pairs(learned)], pairs_by_value(failures(others), branches))


def branched(bench: Bench, name: str, **config: Any) -> tuple[list[Trajectory], list[Trajectory], list[Trajectory]]:
    """Its own rollouts in two parts, and the continuations of the failures in both."""
    play_own(bench)
    runs = {"model": "../sft/model", "runs": "../own/trajectories.jsonl", "samples": BRANCHES}
    branches = bench.branches(name, {**runs, **config})
    return (*parted(bench.trajectories("own")), branches)


def count_of_pairs(learned: list[Trajectory]) -> int:
    """The number of plain pairs, to compare all kinds at equal amounts of data."""
    return len(pairs_by_outcome(learned, per_task=PAIRS_A_TASK))


def cut_and_whole(bench: Bench, stage: str, files: tuple[str, str]) -> Outcome:
    """DPO on pairs whose sides are cut after their first turn; `whole` is trained on the same pairs uncut."""
    whole = from_pairs(bench, f"{stage}-whole", files, scope="trajectory")
    result = from_pairs(bench, stage, files, scope="step")
    result.more["whole"] = {
        "after": whole.after,
        "low": whole.low,
        "high": whole.high,
        "seconds": whole.seconds,
        **whole.more,
    }
    result.more["cut_less_whole"] = bench.difference(f"{stage}-whole", stage)._asdict()
    return result
