"""One function a stage. Each begins from the model that `sft` makes with the same seed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from apps.demo import recipe
from bench.learning import annotators, credit
from bench.learning.endings import endings
from bench.learning.harness import Bench, Outcome, outcome
from bench.learning.pairs import failures, pairs_by_branch, pairs_by_outcome, pairs_by_value
from contract.trajectory import Trajectory
from trainer.statistics import Proportion

Stage = Callable[[Bench], Outcome]
Row = dict[str, Any]
OWN_ROLLOUTS = {"split": "train", "levels": recipe.LEVELS, "count": 300, "seed": 3}
ROLLOUTS_A_TASK = 6
PAIRS_A_TASK = 3
BRANCHES = 4
PREFERENCES_A_TASK = 1
HELD_OUT_PREFERENCES_A_TASK = 3
MIXES = {"learned-only": {"learned_outcome": 1.0}, "mixed": {"outcome": 1.0, "learned_outcome": 0.4}}
"""Weights of reward terms: α · environment + β · reward model. Below a half of α, β cannot make a failure worth more than a success."""
SUCCESS = {"terms": [{"component": "outcome", "measure": "success"}]}
LONG = {
    "optimizer": {**recipe.GRPO["optimizer"], "max_steps": 60, "schedule": "linear"},
    "evaluate_every": 10,
}


def sft(bench: Bench) -> Outcome:
    """From imperfect demonstrations. Before it the weights are random; `demonstrator` is what it imitates."""
    shown = demonstrate(bench)
    report = first_model(bench)
    return outcome(
        bench, "sft", report, before=None, after=bench.success("sft"), demonstrator=shown["success"]["value"]
    )


def grpo(bench: Bench) -> Outcome:
    return online(bench, "grpo", recipe.GRPO, kind="grpo")


def rloo(bench: Bench) -> Outcome:
    return online(bench, "rloo", recipe.RLOO, kind="rloo")


def human_grpo(bench: Bench) -> Outcome:
    """GRPO on a reward model of simulated annotators' preferences alone; `mixed` has the environment's outcome too.

    `ranked` is the share of held-out preferences that the reward model ranks as the annotators did.
    """
    rows, held_out = people_pairs(bench)
    model = bench.run("human-rm", {"kind": "reward_model", **settings(bench, recipe.REWARD_MODEL, rows, held_out)})
    alone, mixed = (online_on(bench, f"human-grpo-{name}", weights) for name, weights in MIXES.items())
    alone.more["mixed"] = {"after": mixed.after, "low": mixed.low, "high": mixed.high, **mixed.more}
    facts = {"ranked": model["held_out_accuracy"], "pairs": model["rows"]["train"]}
    return replace(alone, stage="human-grpo", more=alone.more | facts)


def human_grpo_masked(bench: Bench) -> Outcome:
    """The mixed run of `human-grpo` but for its cut-off turns, which are left out of the loss; `less_unmasked` compares the two, task by task."""
    human_grpo(bench)
    result = online_on(bench, "human-grpo-masked", MIXES["mixed"], mask_cut_off=True)
    result.more["less_unmasked"] = bench.difference("human-grpo-mixed", "human-grpo-masked")._asdict()
    return result


def grpo_masked(bench: Bench) -> Outcome:
    """The same run as `grpo` but for its cut-off turns, which are left out of the loss."""
    return online(bench, "grpo-masked", recipe.GRPO, kind="grpo", mask_cut_off=True)


def grpo_long(bench: Bench) -> Outcome:
    """Three times the steps of `grpo-masked`, with a learning rate that falls."""
    return online(bench, "grpo-long", recipe.GRPO, kind="grpo", mask_cut_off=True, **LONG)


def grpo_success(bench: Bench) -> Outcome:
    """The same run as `grpo-masked` but for its reward: success alone, where failures are all worth the same."""
    return online(bench, "grpo-success", recipe.GRPO, kind="grpo", mask_cut_off=True, rewards=SUCCESS)


def grpo_success_long(bench: Bench) -> Outcome:
    """The same run as `grpo-long` but for its reward, as in `grpo-success`."""
    return online(bench, "grpo-success-long", recipe.GRPO, kind="grpo", mask_cut_off=True, rewards=SUCCESS, **LONG)


def grpo_turn_credit(bench: Bench) -> Outcome:
    """The same run as `grpo` but for its credit."""
    return online(bench, "grpo-turn-credit", recipe.GRPO, kind="grpo", credit="turn")


def credit_compared(bench: Bench) -> Outcome:
    """How fast GRPO learns at first, with turn-level credit and without."""
    first_model(bench)
    return credit.measured(bench)


def dpo(bench: Bench) -> Outcome:
    """On pairs of its own rollouts, success against failure."""
    return from_pairs(bench, "dpo", own_pairs(bench), scope="trajectory")


def step_dpo(bench: Bench) -> Outcome:
    """On the same pairs, each side cut after the first turn in which they differ; `less_dpo` compares the two, task by task."""
    dpo(bench)
    result = from_pairs(bench, "step-dpo", own_pairs(bench), scope="step")
    result.more["less_dpo"] = bench.difference("dpo", "step-dpo")._asdict()
    return result


def error_dpo(bench: Bench) -> Outcome:
    """On pairs that part at the failed run's first error, each side cut after that turn; `whole` learned from the same pairs uncut."""
    return cut_and_whole(bench, "error-dpo", branched_pairs(bench))


def value_dpo(bench: Bench) -> Outcome:
    """On pairs that part at the turn which lost most of the failed run's chance, each side cut after that turn; `whole` learned from them uncut."""
    return cut_and_whole(bench, "value-dpo", valued_pairs(bench))


def reward_model(bench: Bench) -> Outcome:
    """The share of held-out pairs ranked rightly where one side succeeded and the other did not; chance is a half."""
    rows, held_out = own_pairs(bench)
    report = bench.run("reward-model", {"kind": "reward_model", **settings(bench, recipe.REWARD_MODEL, rows, held_out)})
    ranked = report["held_out_accuracy"]
    after = Proportion(ranked["value"], ranked["low"], ranked["high"], ranked["n"])
    return outcome(bench, "reward_model", report, before=0.5, after=after)


def prm(bench: Bench) -> Outcome:
    """`f1` of finding the first error on held-out runs, with the share of rightly judged turns and its interval."""
    play_own(bench)
    learnt, others = ([run.to_json() for run in part if run.steps] for part in parted(bench.trajectories("own")))
    config = {"kind": "process_reward_model", **settings(bench, recipe.PRM, *written(bench, "judged", learnt, others))}
    report = bench.run("prm", config)
    judged = report["step_accuracy"]
    after = Proportion(judged["value"], judged["low"], judged["high"], judged["n"])
    return outcome(bench, "prm", report, before=None, after=after, first_error=report["first_error"])


STAGES: dict[str, Stage] = {
    "sft": sft,
    "grpo": grpo,
    "rloo": rloo,
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
    "grpo-masked": grpo_masked,
    "grpo-long": grpo_long,
    "grpo-success": grpo_success,
    "grpo-success-long": grpo_success_long,
}


def demonstrate(bench: Bench) -> dict[str, Any]:
    config = {
        "kind": "rollout",
        "policy": {"engine": "scripted", "script": recipe.DEMONSTRATOR},
        "tasks": {
            "split": "train",
            "levels": recipe.LEVELS,
            "count": recipe.DEMONSTRATION_TASKS,
            "seed": 100 + bench.seed,
        },
        "seed": bench.seed,
    }
    return bench.run("demonstrations", config)


def first_model(bench: Bench) -> dict[str, Any]:
    demonstrate(bench)
    config = {
        "kind": "sft",
        "model": {"scratch": recipe.MODEL},
        "data": {"train": "../demonstrations/trajectories.jsonl"},
        "optimizer": recipe.SFT,
        "checkpoints": {"every": 1000},
        "log_every": 10,
        "seed": bench.seed,
    }
    return bench.run("sft", config)


def online(bench: Bench, stage: str, practice: dict[str, Any], **changes: Any) -> Outcome:
    """`success` is that on the held-out tasks at each evaluation, by step; `endings` tells how held-out rollouts ended before and after."""
    first_model(bench)
    before = bench.success("sft")
    config = {
        **practice,
        "model": {"path": "../sft/model"},
        "tasks": {"levels": recipe.LEVELS, "count": 1000, "seed": 200 + bench.seed},
        "checkpoints": {"every": 1000},
        "seed": bench.seed,
        **changes,
    }
    report = bench.run(stage, config)
    after = bench.success(stage)
    return outcome(
        bench,
        stage,
        report,
        before=before.value,
        after=after,
        gain=bench.difference("sft", stage)._asdict(),
        rollouts=report["rollouts"],
        success=bench.curve(stage, "eval/success"),
        endings=[endings(bench.trajectories(f"{model}-held-out")) for model in ("sft", stage)],
    )


def online_on(bench: Bench, stage: str, weights: Mapping[str, float], **changes: Any) -> Outcome:
    """GRPO on these reward terms. `learned` is what the reward model says of the held-out tasks at each evaluation, by step."""
    terms = [
        {"component": component, "weight": weight, **({"path": "../human-rm/model"} if "learned" in component else {})}
        for component, weight in weights.items()
    ]
    result = online(bench, stage, recipe.GRPO, kind="grpo", rewards={"terms": terms}, **changes)
    result.more["learned"] = bench.curve(stage, "eval/rewards/learned_outcome/mean")
    return result


def people_pairs(bench: Bench) -> tuple[str, str]:
    """Files of preferences to learn from, and of preferences on other tasks to measure on."""
    play_own(bench)
    learnt, others = parted(bench.trajectories("own"))
    train = annotators.preferences(learnt, per_task=PREFERENCES_A_TASK, seed=bench.seed)
    held_out = annotators.preferences(others, per_task=HELD_OUT_PREFERENCES_A_TASK, seed=bench.seed)
    return written(bench, "people", train, held_out)


def play_own(bench: Bench) -> None:
    first_model(bench)
    bench.play("own", "sft", tasks=OWN_ROLLOUTS, samples=ROLLOUTS_A_TASK)


def own_pairs(bench: Bench) -> tuple[str, str]:
    """Files of pairs to learn from, and of pairs of other tasks to measure on."""
    play_own(bench)
    learnt, others = parted(bench.trajectories("own"))
    train = pairs_by_outcome(learnt, per_task=PAIRS_A_TASK)
    return written(bench, "pairs", train, pairs_by_outcome(others, per_task=ROLLOUTS_A_TASK))


def branched_pairs(bench: Bench) -> tuple[str, str]:
    """The same, of failures against successes that go on from their first errors; no more than there are of the others to learn from."""
    learnt, others, branches = branched(bench, "branches", seed=10_000 * bench.seed)
    train = pairs_by_branch(learnt, branches, per_task=PAIRS_A_TASK)
    held_out = pairs_by_branch(others, branches, per_task=ROLLOUTS_A_TASK)
    return written(bench, "branched", train[: count_of_pairs(learnt)], held_out)


def valued_pairs(bench: Bench) -> tuple[str, str]:
    """The same, of failures against successes that part at the turn which lost most."""
    seed = 10_000 * bench.seed + 5_000
    learnt, others, branches = branched(bench, "values", seed=seed, turns="all", at_most=2)
    train = pairs_by_value(failures(learnt), branches)
    return written(bench, "valued", train[: count_of_pairs(learnt)], pairs_by_value(failures(others), branches))


def branched(bench: Bench, name: str, **config: Any) -> tuple[list[Trajectory], list[Trajectory], list[Trajectory]]:
    """Its own rollouts, in two parts, and what went on from the failures of both."""
    play_own(bench)
    runs = {"model": "../sft/model", "runs": "../own/trajectories.jsonl", "samples": BRANCHES}
    branches = bench.branches(name, {**runs, **config})
    return (*parted(bench.trajectories("own")), branches)


def count_of_pairs(learnt: list[Trajectory]) -> int:
    """How many there are of the plain kind: all kinds are compared at equal data."""
    return len(pairs_by_outcome(learnt, per_task=PAIRS_A_TASK))


def written(bench: Bench, name: str, train: list[Row], held_out: list[Row]) -> tuple[str, str]:
    return bench.write(f"{name}.jsonl", train), bench.write(f"{name}-held-out.jsonl", held_out)


def parted(rollouts: list[Trajectory]) -> tuple[list[Trajectory], list[Trajectory]]:
    """Those of four fifths of the tasks, and the others."""
    tasks = list(dict.fromkeys(each.task.key for each in rollouts))
    learnt = set(islice(tasks, len(tasks) * 4 // 5))
    train = [each for each in rollouts if each.task.key in learnt]
    return train, [each for each in rollouts if each.task.key not in learnt]


def cut_and_whole(bench: Bench, stage: str, files: tuple[str, str]) -> Outcome:
    """On pairs whose sides are cut after their first turn; `whole` learned from the same pairs uncut."""
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


def from_pairs(bench: Bench, stage: str, files: tuple[str, str], **changes: Any) -> Outcome:
    before = bench.success("sft")
    report = bench.run(stage, {"kind": "dpo", **settings(bench, recipe.DPO, *files), **changes})
    after = bench.success(stage)
    gain = bench.difference("sft", stage)._asdict()
    return outcome(
        bench,
        stage,
        report,
        before=before.value,
        after=after,
        gain=gain,
        pairs=report["rows"]["train"],
        policy_tokens=report["rows"]["policy_tokens"],
    )


def settings(bench: Bench, optimizer: dict[str, Any], rows: str, held_out: str) -> dict[str, Any]:
    return {
        "model": {"path": "../sft/model"},
        "data": {"train": rows, "validation": held_out},
        "optimizer": optimizer,
        "evaluate_every": 1000,
        "checkpoints": {"every": 1000},
        "seed": bench.seed,
    }
