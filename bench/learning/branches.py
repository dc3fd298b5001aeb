"""Branches off failed runs: runs that repeat a failed one up to its first error, or up to each turn, to locate where success was lost.

`python -m bench.learning.branches <folder>` executes `<folder>/branches.json`, in a child process like the trainer's runs.
"""

import asyncio
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from apps.demo import recipe
from bench.learning.harness import BRANCHES
from bench.learning.pairs import failures, few_of_each_task
from contract.configs import Budget, LocalPolicy, ModelConfig, Sampling
from contract.trajectory import Trajectory
from trainer.environments.replay import replayed_to
from trainer.interruption import StopRequest
from trainer.records import read_trajectories
from trainer.rollouts.episode import play
from trainer.rollouts.local import load_engine
from trainer.rollouts.policy import Policy
from trainer.rows import judged_by_environment

PARALLEL = 64


@dataclass(frozen=True)
class BranchConfig:
    """Paths are relative to the folder."""

    model: str
    runs: str
    """Trajectories; the failed ones are branched."""
    samples: int
    """Continuations per run and branch turn."""
    seed: int
    turns: Literal["first_error", "all"] = "first_error"
    at_most: int | None = None
    """Maximum number of failed runs per task; None means all."""


def first_error(run: Trajectory) -> int:
    """The first bad turn: one that the environment refused or that caused harm; otherwise the last, which gave up too early."""
    error = judged_by_environment(run).first_error
    return error if error is not None and error >= 0 else len(run.steps) - 1


async def branches(failed: list[Trajectory], policy: Policy, config: BranchConfig) -> list[Trajectory]:
    """The continued runs, `config.samples` of each; `info.branch` has the original run and the turn from which they differ."""
    waiting = [
        (run, turn, sample)
        for run in failed
        for turn in (range(len(run.steps)) if config.turns == "all" else [first_error(run)])
        for sample in range(config.samples)
    ]
    played: dict[int, Trajectory] = {}
    episodes = iter(enumerate(waiting))

    async def play_in_turn() -> None:
        for number, (run, turn, sample) in episodes:
            replay = replayed_to(run, turn)
            agent = policy.begin(run.task, config.seed + number)
            rollout = await play(replay.environment, run.task, agent, Budget(**recipe.BUDGET), after=replay)
            info = {**rollout.info, "branch": {"of": run.id, "turn": turn}}
            played[number] = replace(rollout, id=f"{run.id}@{turn}.{sample}", policy=policy.name, info=info)

    await asyncio.gather(*(play_in_turn() for _ in range(PARALLEL)))
    return [played[number] for number in sorted(played)]


def main(folder: Path) -> None:
    config = BranchConfig(**json.loads((folder / "branches.json").read_text()))
    playing = LocalPolicy(model=ModelConfig(path=config.model), sampling=Sampling(**recipe.SAMPLING))
    policy = load_engine(playing, folder, StopRequest())
    failed = few_of_each_task(failures(read_trajectories(folder / config.runs)), config.at_most)

    async def work() -> list[Trajectory]:
        try:
            return await branches(failed, policy, config)
        finally:
            await policy.close()

    lines = [json.dumps(run.to_json()) + "\n" for run in asyncio.run(work())]
    unfinished = folder / "branches.part"
    unfinished.write_text("".join(lines), encoding="utf-8")
    unfinished.rename(folder / BRANCHES)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
