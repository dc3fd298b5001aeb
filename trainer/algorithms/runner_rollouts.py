"""Plays the tasks of a training run in external programs: runners lease the episodes, and the gateway forwards their chats."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from transformers import PreTrainedTokenizerBase

from contract.configs import OnlineConfig
from contract.episodes import Batch, EpisodeFolder, PlayedEpisode, WantedEpisode, new_batch_id
from contract.events import Log, Warned
from contract.trajectory import Outcome, Trajectory
from trainer.algorithms.policy_rollouts import Attempt
from trainer.events import EventLog
from trainer.failures import DataFailure
from trainer.interruption import StoppedMidway, StopRequest
from trainer.rollouts.chat_server import ChatServer
from trainer.rollouts.local import LocalEngine

HOST = "TRAINER_HOST"
"""The variable with this machine's address as the gateway reaches it; "hostname" stands for the machine's own name."""
POLL_SECONDS = 0.1
ABSENT = "abandoned"
"""Termination of an episode whose end no runner reported."""


def is_absent(rollout: Trajectory) -> bool:
    """Whether no runner played it to its end, which isn't the policy's failure."""
    return not rollout.steps and rollout.outcome.termination == ABSENT


def own_host() -> str:
    """A name or address of this machine."""
    host = os.environ.get(HOST, "") or "127.0.0.1"
    return socket.gethostname() if host == "hostname" else host


class RunnerPlayer:
    """Replaces `policy_rollouts.Player` for agents that run elsewhere."""

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        config: OnlineConfig,
        stop: StopRequest,
        *,
        folder: Path,
        events: EventLog,
    ) -> None:
        self._config = config
        self._stop = stop
        self._events = events
        self._folder = EpisodeFolder(folder)
        self._engine = LocalEngine(model, tokenizer, config.sampling, stop, name="policy")
        self.ends = self._engine.ends
        """Tokens that end a turn. A turn that ends with any other was cut off by the token limit."""

    def play(self, attempts: Sequence[Attempt], *, moment: str) -> list[PlayedEpisode]:
        """The rollouts, in order; those without a reported end are `is_absent`. Raises StoppedMidway, RunFailure."""
        if not attempts:
            return []
        model = self._engine.model
        was_training = model.training
        model.eval()
        try:
            return asyncio.run(self._play_all(attempts, moment))
        finally:
            self._folder.close()
            model.train(was_training)

    async def _play_all(self, attempts: Sequence[Attempt], moment: str) -> list[PlayedEpisode]:
        server = ChatServer(self._engine, seed=self._config.seed)
        async with server.listening(own_host()) as address:
            batch = Batch(
                id=new_batch_id(),
                moment=moment,
                address=address,
                lease_seconds=self._config.lease_seconds,
                most_calls=self._config.budget.steps,
                episodes=tuple(WantedEpisode(str(uuid4()), attempt.task, attempt.number) for attempt in attempts),
            )
            self._folder.open(batch)
            results = await self._results(batch, server)
        return [
            results.get(episode.id) or PlayedEpisode(Trajectory(episode.task, [], Outcome(termination=ABSENT)))
            for episode in batch.episodes
        ]

    async def _results(self, batch: Batch, server: ChatServer) -> dict[str, PlayedEpisode | None]:
        """The episodes' results by the deadline, which counts from the first chat, since runners may start later than the training run."""
        results: dict[str, PlayedEpisode | None] = {}
        self._events.emit(Log(f"{batch.moment}: {len(batch.episodes)} episodes wait for runners"))
        while len(results) < len(batch.episodes):
            if self._stop.requested:
                raise StoppedMidway
            if server.failure is not None:
                raise server.failure
            results |= dict(self._folder.answers(batch, but=set(results)))
            began = server.asked_at
            if any(results.values()) and began and time.monotonic() - began > self._config.deadline_seconds:
                break
            await asyncio.sleep(POLL_SECONDS)
        played = sum(result is not None for result in results.values())
        if played < len(batch.episodes):
            self._report_absent(batch, played)
        return results

    def _report_absent(self, batch: Batch, played: int) -> None:
        missing = f"{batch.moment}: {len(batch.episodes) - played} of {len(batch.episodes)} episodes didn't finish."
        if not played:
            raise DataFailure(
                f"{missing} The runners failed repeatedly at each of them.",
                advice="Check your runners' output, repair the agent, and resume the training run.",
            )
        self._events.emit(
            Warned(
                f"{missing} The step continues without them.",
                advice="Start more runners, or raise deadline_seconds.",
            )
        )
