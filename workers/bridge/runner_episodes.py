"""The worker's side of episodes played by runners: copies the trainer's requests to the database, and results back to its folder."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from apps.training import episodes
from apps.training.models import Run
from contract.episodes import Batch, EpisodeFolder, PlayedEpisode
from contract.jsontext import UnreadableJSON
from contract.trajectory import Trajectory
from contract.values import BadRow

POLL_SECONDS = 0.25
"""Seconds between checks for ended episodes."""
logger = logging.getLogger(__name__)


class RunnerEpisodes:
    """The runners' episodes of one attempt at a run. Idempotent: another worker can continue from any point."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._run = run
        self._folder = EpisodeFolder(folder)
        self._batch: Batch | None = None
        self._next_poll = 0.0

    def begin(self) -> None:
        """Call before the trainer starts: closes requests of a killed one."""
        self._folder.close()
        episodes.close_batches(self._run)

    def serve_requests(self) -> None:
        """Open requested episodes, close withdrawn ones, and report ended ones to the trainer. Raises OSError, Superseded."""
        if time.monotonic() < self._next_poll:
            return
        self._next_poll = time.monotonic() + POLL_SECONDS
        batch = self._folder.batch()
        if batch is None:
            self.close()
            return
        if self._batch is None or self._batch.id != batch.id:
            episodes.open_batch(self._run, batch)
            self._batch = batch
        for episode, played in episodes.ended_episodes(UUID(batch.id)):
            try:
                self._folder.answer(batch, str(episode.pk), played and _checked(played))
            except (BadRow, UnreadableJSON) as problem:  # agents' input mustn't end a training run
                logger.warning("episode %s can't be reported to its trainer: %s", episode.pk, problem)
                self._folder.answer(batch, str(episode.pk), None)
            episodes.mark_answered(episode)

    def close(self) -> None:
        """Stop leasing episodes. Raises Superseded."""
        if self._batch is not None:
            episodes.close_batches(self._run)
            self._batch = None


def _checked(played: PlayedEpisode) -> PlayedEpisode:
    """The episode unchanged, if the trainer can read it. Raises BadRow, UnreadableJSON."""
    return replace(played, rollout=Trajectory.from_json(played.rollout.to_json()))
