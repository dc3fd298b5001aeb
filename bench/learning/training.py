"""Training runs shared by the stages, each from the model that `first_model` makes with the same seed: on rollouts, or on pairs."""

from itertools import islice
from typing import Any

from apps.demo import recipe
from bench.learning.endings import endings
from bench.learning.harness import SIZES, Bench, Outcome, outcome
from bench.learning.pairs import pairs_by_outcome
from contract.trajectory import Trajectory

Row = dict[str, Any]
OWN_ROLLOUTS: dict[str, Any] = {"split": "train", "levels": recipe.LEVELS, "count": 300, "seed": 3}
SFT_STEPS = {"office": recipe.SFT["max_steps"], "search": 2400}
"""By world. A name that a search copies from its context has more tokens than an ID of the office, so copying it takes longer to discover."""
ROLLOUTS_A_TASK = 6
PAIRS_A_TASK = 3


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
    return bench.run("sft", sft_config(bench, "../demonstrations/trajectories.jsonl"))


def sft_config(bench: Bench, rows: str) -> dict[str, Any]:
    """SFT of a model from random weights on this file."""
    return {
        "kind": "sft",
        "model": {"scratch": SIZES[bench.size]},
        "data": {"train": rows},
        "optimizer": {**recipe.SFT, "max_steps": SFT_STEPS[bench.world]},
        "checkpoints": {"every": 1000},
        "log_every": 10,
        "seed": bench.seed,
    }


def play_own(bench: Bench) -> None:
    first_model(bench)
    bench.play("own", "sft", tasks=OWN_ROLLOUTS, samples=ROLLOUTS_A_TASK)


def parted(rollouts: list[Trajectory]) -> tuple[list[Trajectory], list[Trajectory]]:
    """The rollouts of four fifths of the tasks, and the others."""
    tasks = list(dict.fromkeys(rollout.task.key for rollout in rollouts))
    learned = set(islice(tasks, len(tasks) * 4 // 5))
    train = [rollout for rollout in rollouts if rollout.task.key in learned]
    return train, [rollout for rollout in rollouts if rollout.task.key not in learned]


def written(bench: Bench, name: str, train: list[Row], held_out: list[Row]) -> tuple[str, str]:
    return bench.write(f"{name}.jsonl", train), bench.write(f"{name}-held-out.jsonl", held_out)


def own_pairs(bench: Bench) -> tuple[str, str]:
    """Files of training pairs, and of held-out pairs of other tasks."""
    play_own(bench)
    learned, others = parted(bench.trajectories("own"))
    train = pairs_by_outcome(learned, per_task=PAIRS_A_TASK)
    return written(bench, "pairs", train, pairs_by_outcome(others, per_task=ROLLOUTS_A_TASK))


def online(bench: Bench, stage: str, settings: dict[str, Any], **changes: Any) -> Outcome:
    """`success` is the success on the held-out tasks at each evaluation, by step; `endings` counts how held-out rollouts ended before and after."""
    first_model(bench)
    before = bench.success("sft")
    config = {
        **settings,
        "model": {"path": "../sft/model"},
        "tasks": {"levels": recipe.LEVELS, "count": 1000, "seed": 200 + bench.seed},
        "checkpoints": {"every": 1000},
        "seed": bench.seed,
        **changes,
    }
    return online_outcome(bench, stage, bench.run(stage, config), before=before.value)


def online_outcome(bench: Bench, stage: str, report: dict[str, Any], *, before: float) -> Outcome:
    """The result of the run `stage`, which started from the first model."""
    after = bench.success(stage)
    return outcome(
        bench,
        stage,
        report,
        before=before,
        after=after,
        gain=bench.difference("sft", stage)._asdict(),
        rollouts=report["rollouts"],
        success=bench.curve(stage, "eval/success"),
        endings=[endings(bench.trajectories(f"{model}-held-out")) for model in ("sft", stage)],
    )


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
