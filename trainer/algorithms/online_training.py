"""Rollouts by the policy being trained: played for each step, scored, and kept for people to read."""

import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from accelerate.utils import gather_object  # type: ignore[import-untyped]  # accelerate has no marker
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from contract.configs import OnlineConfig, TasksConfig, TrainingTasksConfig
from contract.episodes import PlayedEpisode
from contract.left_out_tasks import read_left_out
from contract.trajectory import Task, Trajectory
from trainer.algorithms.policy_rollouts import Attempt, Player
from trainer.algorithms.runner_rollouts import RunnerPlayer, is_absent
from trainer.algorithms.token_rows import TokenRow, token_rows
from trainer.failures import DataFailure
from trainer.rewards import Reward, Rewards
from trainer.rewards.total import metrics_of
from trainer.rollouts.runner import load_tasks


@dataclass
class Batch:
    """The rollouts of one step."""

    rollouts: list[Trajectory]
    rewards: list[Reward]
    rows: list[TokenRow]
    costs: dict[str, float] = field(default_factory=dict)
    """What playing them took, and how. The figures of the rollouts themselves are computed by `training_figures`, over all processes."""
    turn_advantages: list[list[float]] | None = None
    """For each rollout, one number per turn, with turn-level credit."""


class RolloutSource:
    """Everything in an online run but the algorithm: takes tasks and returns scored rollouts."""

    def __init__(
        self, config: OnlineConfig, folder: Path, player: Player | RunnerPlayer, rewards: Rewards, *, empty: int
    ) -> None:
        self.config = config
        self.folder = folder / "rollouts"
        self.player = player
        self.rewards = rewards
        self.empty = empty
        self.tasks = {task.key: task for task in training_tasks(config.tasks, folder)}
        self.held_out = held_out_tasks(config, folder)
        self.batch = Batch([], [], [])

    def play(self, keys: Sequence[str], *, step: int) -> Batch:
        """Play each task of a step `samples` times in a row, and store the batch."""
        start = time.monotonic()
        size = self.config.samples
        groups = self._play([self._group(key) for key in keys[::size]], step)
        exchanged = 0
        played = set(keys)
        for attempt in range(self.config.resample):
            uniform = [index for index, group in enumerate(groups) if not group.varies]
            replacement_tasks = self._other_tasks(played, len(uniform), seed=f"{self.config.seed} {step} {attempt}")
            replacements = self._play([self._group(key) for key in replacement_tasks], step)
            played.update(replacement_tasks)
            for index, group in zip(uniform, replacements, strict=False):
                groups[index] = group
            exchanged += len(replacements)
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        check_played(rollouts)
        rewards = [reward for group in groups for reward in group.rewards]
        costs = {"resampled": exchanged / len(groups), "rollout_seconds": time.monotonic() - start}
        ends = self.player.ends if self.config.mask_cut_off else frozenset()
        episodes = [episode for group in groups for episode in group.episodes]
        rows = token_rows(episodes, empty=self.empty, ends=ends)
        if self.config.played_by == "runners":
            costs["chats"] = fmean(row.chat_count for row in rows)
        self.batch = Batch(rollouts, rewards, rows, costs)
        return self.batch

    def evaluate(self, share: slice) -> list[Trajectory]:
        """Attempt a share of the held-out tasks, with the same tasks and random seeds at each evaluation."""
        played = self.player.play([Attempt(task, 0) for task in self.held_out[share]], moment="evaluation")
        rollouts = [episode.rollout for episode in played if not is_absent(episode.rollout)]
        check_played(rollouts)
        return rollouts

    def keep(self, *, step: int, advantages: Sequence[float]) -> None:
        """Save the first groups of the batch, so that the chats behind a point of a curve can be read."""
        batch, by_turn = self.batch, self.batch.turn_advantages
        saved = []
        for index, rollout in enumerate(batch.rollouts[: self.config.kept * self.config.samples]):
            credit = {"turn_advantages": by_turn[index]} if by_turn else {"advantage": advantages[index]}
            saved.append((rollout, reward_details(batch.rewards[index]) | credit))
        self.write(f"step-{step:06d}", saved, step)

    def write(self, name: str, rollouts: Sequence[tuple[Trajectory, dict[str, Any]]], step: int) -> None:
        """Write `rollouts/<name>.jsonl`, one retrace/1 record per line."""
        if not rollouts:
            return
        self.folder.mkdir(exist_ok=True)
        attempts: Counter[str] = Counter()
        with (self.folder / f"{name}.jsonl").open("w", encoding="utf-8", errors="backslashreplace") as file:
            for rollout, details in rollouts:
                sample = attempts[rollout.task.key]
                attempts[rollout.task.key] += 1
                record = replace(
                    rollout,
                    id=f"{name}:{rollout.task.key}#{sample}",
                    info={**rollout.info, "step": step, **details},
                )
                file.write(json.dumps(record.to_json(), ensure_ascii=False) + "\n")

    def forget_after(self, step: int) -> None:
        """Delete what an earlier attempt kept of later steps: those policies are gone."""
        for path in self.folder.glob("*-*.jsonl"):
            if int(path.stem.rpartition("-")[2]) > step:
                path.unlink()

    def total(self, **_: object) -> list[float | None]:
        """The batch's rewards, in the form of TRL's reward functions."""
        return [reward.total for reward in self.batch.rewards]

    def _group(self, key: str) -> list[Attempt]:
        return [Attempt(self.tasks[key], number) for number in range(self.config.samples)]

    def _play(self, groups: Sequence[list[Attempt]], step: int) -> list["Group"]:
        played = self.player.play([attempt for attempts in groups for attempt in attempts], moment=f"step {step}")
        rollouts = [episode.rollout for episode in played]
        scored = iter(zip(played, with_absent_at_mean(rollouts, self.rewards.score(rollouts)), strict=True))
        return [Group(*zip(*(next(scored) for _ in attempts), strict=True)) for attempts in groups]

    def _other_tasks(self, played: Set[str], count: int, *, seed: str) -> list[str]:
        """Tasks that weren't played in this step: with the same weights, they would give the same rollouts again."""
        unused = [key for key in self.tasks if key not in played]
        return random.Random(seed).sample(unused, min(count, len(unused)))


class KeptRollouts(TrainerCallback):
    """Forgets the rollouts after the checkpoint that a run resumes from."""

    def __init__(self, source: RolloutSource) -> None:
        self.source = source

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self.source.forget_after(state.global_step)


class Group(NamedTuple):
    """Rollouts of one task, whose rewards are compared."""

    episodes: tuple[PlayedEpisode, ...]
    rewards: tuple[Reward, ...]

    @property
    def rollouts(self) -> list[Trajectory]:
        return [episode.rollout for episode in self.episodes]

    @property
    def varies(self) -> bool:
        return len({reward.total for reward in self.rewards}) > 1


def with_absent_at_mean(rollouts: Sequence[Trajectory], rewards: Sequence[Reward]) -> list[Reward]:
    """Rewards in which a rollout without a reported end gets the mean of its group, so that its advantage is zero."""
    totals: dict[str, list[float]] = defaultdict(list)
    for rollout, reward in zip(rollouts, rewards, strict=True):
        if not is_absent(rollout):
            totals[rollout.task.key].append(reward.total)
    return [
        Reward(fmean(totals[rollout.task.key] or [0.0]), dict.fromkeys(reward.parts), [])
        if is_absent(rollout)
        else reward
        for rollout, reward in zip(rollouts, rewards, strict=True)
    ]


def check_played(rollouts: Sequence[Trajectory]) -> None:
    """Raises DataFailure if no rollout has a turn: the environment is down, or no chat fits the model's context."""
    if not rollouts or any(rollout.steps for rollout in rollouts):
        return
    ended = rollouts[0].outcome.termination
    raise DataFailure(
        f"None of {len(rollouts)} rollouts had a turn: {ended.replace('_', ' ')}, {rollouts[0].info.get(ended, '')}",
        advice="Repair the environment, or choose one whose tasks fit the model's context; the training run continues from its last checkpoint.",
    )


def training_tasks(config: TrainingTasksConfig, folder: Path) -> list[Task]:
    """The tasks to learn from, without those that the worker says to leave out. Raises ConfigFailure, or DataFailure if one of them is held out."""
    tasks = load_tasks(
        TasksConfig(
            environment=config.environment,
            file=config.file,
            levels=config.levels,
            split="train",
            count=config.count,
            seed=config.seed,
        ),
        folder,
        left_out=read_left_out(folder),
    )
    if held_out := [task.key for task in tasks if task.held_out]:
        raise DataFailure(
            f"tasks.file: {held_out[0]!r} is held out, so nothing may be learned from it.",
            advice="Leave held-out tasks out of the file.",
        )
    return tasks


def held_out_tasks(config: OnlineConfig, folder: Path) -> list[Task]:
    """The tasks that measure progress: the same in every run, regardless of its seed."""
    if not config.held_out:
        return []
    selection = TasksConfig(
        environment=config.tasks.environment,
        file=config.held_out_file,
        levels=config.tasks.levels,
        count=config.held_out,
    )
    return load_tasks(selection, folder)


class RolloutCounts(NamedTuple):
    """What the figures count of a rollout: unlike its chat, small enough to be sent to other processes at every step."""

    success: bool | None
    turns: int
    calls: int
    errors: int


def counts_of(rollout: Trajectory) -> RolloutCounts:
    return RolloutCounts(
        rollout.success,
        len(rollout.steps),
        sum(bool(step.message.get("tool_calls")) for step in rollout.steps),
        sum(step.error is not None for step in rollout.steps),
    )


def figures_of(rollouts: Sequence[RolloutCounts], rewards: Sequence[Reward]) -> dict[str, float]:
    """Metrics of some rollouts. `success` is missing if no outcome says whether the task was completed."""
    successes = [rollout.success for rollout in rollouts if rollout.success is not None]
    turns = sum(rollout.turns for rollout in rollouts)
    return {
        **({"success": fmean(successes)} if successes else {}),
        "rollouts_scored": len(successes),
        "turns": turns / len(rollouts),
        "tools/call_frequency": sum(rollout.calls for rollout in rollouts) / len(rollouts),
        "tools/failure_frequency": sum(rollout.errors for rollout in rollouts) / max(1, turns),
        **metrics_of(rewards),
    }


def training_figures(batch: Batch) -> dict[str, float]:
    """Metrics of the batches of all processes, each of which must call this."""
    played = zip(batch.rollouts, batch.rewards, strict=True)
    present = gather_object([(counts_of(rollout), reward) for rollout, reward in played if not is_absent(rollout)])
    costs: list[dict[str, float]] = gather_object([batch.costs])
    return {
        **figures_of([counts for counts, _ in present], [reward for _, reward in present]),
        **{name: fmean(each[name] for each in costs) for name in batch.costs},
        "rollout_seconds": max(each["rollout_seconds"] for each in costs),  # the others wait for the slowest
    }


def reward_details(reward: Reward) -> dict[str, Any]:
    """Reward details for a saved rollout's `info`."""
    return {"reward": round(reward.total, 4), "reward_parts": reward.parts}
