"""Plays a policy's episodes concurrently, and writes each trajectory as it ends.

A killed run can be resumed: episodes already in the output file aren't replayed.
"""

import asyncio
import os
import zlib
from collections.abc import Iterator, Set
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from contract.configs import LocalPolicy, PolicyConfig, RolloutConfig, ScriptedPolicy, ServerPolicy, TasksConfig
from contract.events import Progress, RolloutFinished, Started, Warned
from contract.trajectory import Task, Trajectory
from trainer.environments import environment_named
from trainer.events import EventLog, memory_in_use_mb
from trainer.failures import Cancelled, ConfigFailure, DataFailure, ServerDied
from trainer.interruption import StopRequest
from trainer.records import read_tasks
from trainer.rollouts.episode import play
from trainer.rollouts.output import TrajectoryFile, summarize
from trainer.rollouts.policy import Policy, ServerAway
from trainer.rollouts.react import ReactPolicy
from trainer.rollouts.scripted import ScriptedEngine
from trainer.rollouts.unfinished import UnfinishedFolder

MAX_DEATHS = 3
"""Maximum server failures during one episode."""


class Episode(NamedTuple):
    """A task, and the index of the attempt."""

    task: Task
    sample: int


def run_rollout(config: RolloutConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    """Play every episode that is not in the output file yet. Returns the report. Raises Cancelled, RunFailure."""
    return asyncio.run(Runner(config, folder, events, stop).run())


class Runner:
    """One rollout run."""

    def __init__(self, config: RolloutConfig, folder: Path, events: EventLog, stop: StopRequest) -> None:
        self.config = config
        self.events = events
        self.stop = stop
        self.tasks = load_tasks(config.tasks, folder)
        self.policy = with_tool_format(config.policy, make_policy(config, folder, stop))
        self.output = TrajectoryFile(folder / config.output)
        self.unfinished = UnfinishedFolder(folder)
        self.total = len(self.tasks) * config.samples
        self.done = 0

    async def run(self) -> dict[str, Any]:
        """Play the remaining episodes. Raises Cancelled, RunFailure."""
        try:
            await self._play_all()
        except BaseExceptionGroup as group:
            raise first_of(group) from group
        finally:
            self.output.close()
            await self.policy.close()
        if self.done < self.total:
            raise Cancelled(self.config.output)
        return {"policy": self.policy.name, **summarize(self.output.path)}

    async def _play_all(self) -> None:
        episodes = [Episode(task, sample) for task in self.tasks for sample in range(self.config.samples)]
        waiting = [episode for episode in episodes if self._id(episode) not in self.output.ids]
        self.done = self.total - len(waiting)
        self.events.emit(Started(total_steps=self.total, step=self.done, memory_mb=memory_in_use_mb(), pid=os.getpid()))
        queue = iter(waiting)
        async with asyncio.TaskGroup() as group:
            seats = range(min(self.config.parallel, len(waiting)))
            players = [group.create_task(self._play_in_turn(queue)) for _ in seats]
            group.create_task(self._cancel_when_stopped(players))

    async def _play_in_turn(self, queue: Iterator[Episode]) -> None:
        for episode in queue:
            if self.stop.requested:
                return
            await self._play(episode)
            await asyncio.sleep(0)  # a scripted policy never waits, so yield to other episodes and cancellation

    async def _play(self, episode: Episode) -> None:
        """Play one episode to its end and store it, restarting it if a server dies. Raises ServerDied, RunFailure."""
        problem = ""
        with ExitStack() as snapshots:  # outlive a restart, so that viewers aren't told that the episode has ended
            for _ in range(MAX_DEATHS):
                await self.policy.ready()
                environment = environment_named(episode.task.environment or self.config.tasks.environment)()
                agent = self.policy.begin(episode.task, episode_seed(self.config.seed, episode))
                unfinished = snapshots.enter_context(
                    self.unfinished.begin(self._id(episode), episode.task, self.policy.name, environment.tools)
                )
                try:
                    played = await play(environment, episode.task, agent, self.config.budget, watch=unfinished.watch)
                except ServerAway as away:
                    problem = str(away)
                    self.events.emit(Warned(f"An episode was restarted because its server died. {problem}"))
                    continue
                if not (self.policy.away and played.outcome.termination == "timeout"):
                    self._store(episode, played)  # before its snapshot is deleted: viewers find one of them
                    return
                problem = self.policy.away
        raise ServerDied(
            f"The server died {MAX_DEATHS} times during the same episode, {self._id(episode)}: {problem}",
            advice="See the server's log: something in this episode may cause that. Finished episodes are kept, and resuming continues with the others.",
        )

    def _store(self, episode: Episode, played: Trajectory) -> None:
        info = {**played.info, "sample": episode.sample, "seed": self.config.seed}
        trajectory = replace(played, id=self._id(episode), policy=self.policy.name, info=info)
        self.output.append(trajectory)
        self.done += 1
        self.events.emit(
            RolloutFinished(
                id=trajectory.id,
                task=trajectory.task.key,
                sample=trajectory.info["sample"],
                success=trajectory.outcome.success,
                reward=trajectory.outcome.reward,
                steps=len(trajectory.steps),
                termination=trajectory.outcome.termination,
            )
        )
        self.events.emit(Progress(step=self.done, total=self.total))

    async def _cancel_when_stopped(self, players: list[asyncio.Task[None]]) -> None:
        """A response may take minutes, and a cancelled run mustn't wait for it."""
        while not all(player.done() for player in players):
            if self.stop.requested:
                for player in players:
                    player.cancel()
                return
            await asyncio.sleep(0.05)

    def _id(self, episode: Episode) -> str:
        """Unique id of an episode in the output file: policy, task, sample, and the seed if it isn't 0."""
        suffix = f"@{self.config.seed}" if self.config.seed else ""
        return f"{self.policy.name}:{episode.task.key}#{episode.sample}{suffix}"


def load_tasks(config: TasksConfig, folder: Path, *, left_out: Set[str] = frozenset()) -> list[Task]:
    """The tasks to roll out; those that are drawn are none with the keys `left_out`. Raises ConfigFailure or DataFailure."""
    if config.file is not None:
        tasks = read_tasks(folder / config.file)
        if not tasks:
            raise DataFailure(f"{config.file} holds no task.", advice="Give a file with one task a line.")
        return tasks
    environment = environment_named(config.environment)
    if unknown := [level for level in config.levels if level not in environment.levels]:
        raise ConfigFailure(f"tasks.levels: got {unknown[0]!r}, expected some of {', '.join(environment.levels)}")
    levels = config.levels or environment.usual_levels
    drawn = environment.tasks(levels=levels, split=config.split, seed=config.seed)
    return list(islice((task for task in drawn if task.key not in left_out), config.count))


def make_policy(config: RolloutConfig, folder: Path, stop: StopRequest) -> Policy:
    """Start the configured engine. Engines' libraries are imported lazily."""
    match config.policy:
        case ScriptedPolicy():
            return ScriptedEngine(config.policy, environment_named(config.tasks.environment))
        case LocalPolicy():
            from trainer.rollouts.local import load_engine

            return load_engine(config.policy, folder, stop)
        case ServerPolicy():
            from trainer.rollouts.server import ServerEngine

            return ServerEngine(config.policy, parallel=config.parallel)


def with_tool_format(config: PolicyConfig, policy: Policy) -> Policy:
    """The policy wrapped for its way of calling tools: native, or plain text."""
    if isinstance(config, ScriptedPolicy) or config.tool_calls == "native":
        return policy
    return ReactPolicy(policy)


def episode_seed(seed: int, episode: Episode) -> int:
    """A seed that depends only on the episode, not on which others are played or in which order."""
    return zlib.crc32(f"{seed} {episode.task.key} {episode.sample}".encode())


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception that isn't a group itself."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
