"""Plays tasks with the model being trained, with the same engine, environments, and loop as any rollout."""

import asyncio
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from contract.configs import OnlineConfig
from contract.episodes import PlayedEpisode
from contract.trajectory import Task
from trainer.environments import environment_named
from trainer.interruption import StoppedMidway, StopRequest
from trainer.rollouts.episode import play
from trainer.rollouts.local import LocalEngine


class Attempt(NamedTuple):
    """One episode to play. The same attempt with the same weights always gives the same episode."""

    task: Task
    number: int
    """Index among the attempts at this task in this step."""


class Player:
    """Plays the current policy in many concurrent episodes."""

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase, config: OnlineConfig, stop: StopRequest) -> None:
        self._config = config
        self._engine = LocalEngine(model, tokenizer, config.sampling, stop, name="policy")
        self.ends = self._engine.ends
        """Tokens that end a turn. A turn that ends with any other was cut off by the token limit."""

    def play(self, attempts: Sequence[Attempt], *, moment: str) -> list[PlayedEpisode]:
        """The rollouts, in order. `moment` distinguishes the same attempts at different steps. Raises StoppedMidway."""
        model = self._engine.model
        was_training = model.training
        model.eval()
        try:
            return asyncio.run(self._play_all(attempts, moment))
        except asyncio.CancelledError:  # the engine drops its episodes when a stop is requested
            raise StoppedMidway from None
        finally:
            model.train(was_training)

    async def _play_all(self, attempts: Sequence[Attempt], moment: str) -> list[PlayedEpisode]:
        return await asyncio.gather(*(self._play(attempt, moment) for attempt in attempts))

    async def _play(self, attempt: Attempt, moment: str) -> PlayedEpisode:
        task = attempt.task
        environment = environment_named(task.environment or self._config.tasks.environment)()
        seed = zlib.crc32(f"{self._config.seed} {moment} {task.key} {attempt.number}".encode())
        return PlayedEpisode(await play(environment, task, self._engine.begin(task, seed), self._config.budget))
