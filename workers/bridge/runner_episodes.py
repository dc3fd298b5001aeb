"""The worker's part in episodes that runners play: what the trainer wants goes into the database, and what came of it back into its folder."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from uuid import UUID

from apps.training import episodes
from apps.training.models import Run
from contract.episodes import Batch, EpisodeFolder
from contract.jsontext import UnreadableJSON
from contract.trajectory import Trajectory
from contract.values import BadRow

LOOK_SECONDS = 0.25
"""Between two looks at which episodes have ended."""
logger = logging.getLogger(__name__)


class RunnerEpisodes:
    """Of one attempt at a run. Everything may be done twice: another worker goes on with what this one left."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._run = run
        self._folder = EpisodeFolder(folder)
        self._batch: Batch | None = None
        self._looks_at = 0.0

    def begin(self) -> None:
        """Before the trainer starts: what a killed one asked for is over."""
        self._folder.close()
        episodes.close_batches(self._run)

    def attend(self) -> None:
        """Open what is wanted, close what isn't any more, and tell the trainer of the episodes that ended. Raises OSError."""
        if time.monotonic() < self._looks_at:
            return
        self._looks_at = time.monotonic() + LOOK_SECONDS
        wanted = self._folder.batch()
        if wanted is None:
            self.close()
            return
        if self._batch is None or self._batch.id != wanted.id:
            episodes.open_batch(self._run, wanted)
            self._batch = wanted
        for episode, rollout in episodes.ended_episodes(UUID(wanted.id)):
            try:
                self._folder.answer(wanted, str(episode.pk), rollout and Trajectory.from_json(rollout.to_json()))
            except (BadRow, UnreadableJSON) as problem:  # what an agent sent ends no training run
                logger.warning("episode %s can't be told to its trainer: %s", episode.pk, problem)
                self._folder.answer(wanted, str(episode.pk), None)
            episodes.mark_answered(episode)

    def close(self) -> None:
        """Give out nothing any more."""
        if self._batch is not None:
            episodes.close_batches(self._run)
            self._batch = None
