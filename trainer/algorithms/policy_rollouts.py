"""Plays tasks with the model that is being trained, through the same engine, environments and loop as any rollout."""

import asyncio
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from contract.configs import OnlineConfig
from contract.trajectory import Task, Trajectory
from trainer.environments import environment_named
from trainer.interruption import StoppedMidway, StopRequest
from trainer.rollouts.episode import play
from trainer.rollouts.local import LocalEngine


class Attempt(NamedTuple):
    """One episode to play. The same attempt by the same weights is always the same episode."""

    task: Task
    number: int
    """Among the attempts at this task in this step."""


class Player:
    """The policy as it is now, in as many episodes at once as are asked for."""

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase, config: OnlineConfig, stop: StopRequest) -> None:
        self._config = config
        self._engine = LocalEngine(model, tokenizer, config.sampling, stop, name="policy")
        self.ends = self._engine.ends
        """Tokens that end a turn. One that ends with another was cut off by the token limit."""

    def play(self, attempts: Sequence[Attempt], *, moment: str) -> list[Trajectory]:
        """The rollouts, in order. `moment` tells apart the same attempts at different steps. Raises StoppedMidway."""
        model = self._engine.model
        was_training = model.training
        model.eval()
        try:
            return asyncio.run(self._play_all(attempts, moment))
        except asyncio.CancelledError:  # the engine lets go of its episodes when a stop is asked for
            raise StoppedMidway from None
        finally:
            model.train(was_training)

    async def _play_all(self, attempts: Sequence[Attempt], moment: str) -> list[Trajectory]:
        return await asyncio.gather(*(self._play(attempt, moment) for attempt in attempts))

    async def _play(self, attempt: Attempt, moment: str) -> Trajectory:
        task = attempt.task
        environment = environment_named(task.environment or self._config.tasks.environment)()
        seed = zlib.crc32(f"{self._config.seed} {moment} {task.key} {attempt.number}".encode())
        return await play(environment, task, self._engine.begin(task, seed), self._config.budget)
