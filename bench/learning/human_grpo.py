"""GRPO on a reward model that learned from simulated annotators' preferences, alone or beside the environment's outcome."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from apps.demo import recipe
from bench.learning import annotators
from bench.learning.harness import Bench, Outcome
from bench.learning.plain import PLAIN
from bench.learning.training import online, parted, play_own, settings, written
from contract.trajectory import Trajectory

PREFERENCES_A_TASK = 1
HELD_OUT_PREFERENCES_A_TASK = 3
RM = "human-rm"
MIXES = {"learned-only": {"learned_outcome": 1.0}, "mixed": {"outcome": 1.0, "learned_outcome": 0.4}}
"""Weights of reward terms: α · environment + β · reward model. If β is less than α / 2, a failure can't be worth more than a success."""


def human_grpo(bench: Bench) -> Outcome:
    """GRPO on a reward model trained on simulated annotators' preferences alone; `mixed` adds the environment's outcome.

    `ranked` is the share of held-out preferences on which the reward model agrees with the annotators.
    """
    model = reward_model(bench, RM, people_pairs(bench))
    alone, mixed = (online_on(bench, f"human-grpo-{name}", RM, weights) for name, weights in MIXES.items())
    alone.more["mixed"] = {"after": mixed.after, "low": mixed.low, "high": mixed.high, **mixed.more}
    details = {"ranked": model["held_out_accuracy"], "pairs": model["rows"]["train"]}
    return replace(alone, stage="human-grpo", more=alone.more | details)


def human_grpo_masked(bench: Bench) -> Outcome:
    """The mixed run of `human-grpo` with cut-off turns masked in the loss; `less_unmasked` compares the two, task by task."""
    human_grpo(bench)
    result = online_on(bench, "human-grpo-masked", RM, MIXES["mixed"], mask_cut_off=True)
    result.more["less_unmasked"] = bench.difference("human-grpo-mixed", "human-grpo-masked")._asdict()
    return result


def human_grpo_without(bench: Bench, *, name: str, measure: Callable[[Trajectory], Any]) -> Outcome:
    """Like `human-grpo` with the reward model alone, whose annotators only compared rollouts that differ by `measure`; `less_human_grpo` compares the
    two, task by task.
    """
    human_grpo(bench)
    stage = f"human-grpo-{name}"
    model = reward_model(bench, f"{name}-rm", people_pairs(bench, name, measure))
    result = online_on(bench, stage, f"{name}-rm", MIXES["learned-only"])
    less = bench.difference("human-grpo-learned-only", stage)
    details = {"ranked": model["held_out_accuracy"], "pairs": model["rows"]["train"], "less_human_grpo": less._asdict()}
    return replace(result, more=result.more | details)


HUMAN_GRPO: dict[str, Callable[[Bench], Outcome]] = {
    f"human-grpo-{name}": partial(human_grpo_without, name=name, measure=measure)
    for name, measure in (("progress", annotators.progress), ("success-first", annotators.success_first))
}
"""`progress`: without pairs that differ only in length. `success-first`: without pairs of two failures."""


def online_on(bench: Bench, stage: str, model: str, weights: Mapping[str, float], **changes: Any) -> Outcome:
    """GRPO on these reward terms, with the reward model of the run `model`. `learned` is the reward model's mean on the held-out tasks at each evaluation,
    by step.
    """
    terms = [
        {"component": component, "weight": weight, **({"path": f"../{model}/model"} if "learned" in component else {})}
        for component, weight in weights.items()
    ]
    result = online(bench, stage, {**PLAIN, "rewards": {"terms": terms}, **changes}, kind="grpo")
    result.more["learned"] = bench.curve(stage, "eval/rewards/learned_outcome/mean")
    return result


def reward_model(bench: Bench, name: str, files: tuple[str, str]) -> dict[str, Any]:
    """The report of a reward model trained on the first file's preferences, and measured on the second's."""
    return bench.run(name, {"kind": "reward_model", **settings(bench, recipe.REWARD_MODEL, *files)})


def people_pairs(
    bench: Bench, name: str = "people", measure: Callable[[Trajectory], Any] = annotators.quality
) -> tuple[str, str]:
    """Files of training preferences, and of held-out preferences on other tasks."""
    play_own(bench)
    train, held_out = (
        annotators.preferences(rollouts, per_task=per_task, seed=bench.seed, measure=measure)
        for rollouts, per_task in zip(
            parted(bench.trajectories("own")), (PREFERENCES_A_TASK, HELD_OUT_PREFERENCES_A_TASK), strict=True
        )
    )
    return written(bench, name, train, held_out)
