"""Relays the progress of unfinished episodes to live pages; failures here don't affect the rollout."""

from contextlib import suppress
from pathlib import Path
from uuid import UUID

from apps.common.live import best_effort
from apps.trajectories.rollouts import live_episodes
from contract.jsontext import UnreadableJSON
from contract.values import BadRow
from trainer.rollouts.unfinished import FOLDER

MAX_EPISODES = 40
"""Maximum number of episodes of a batch relayed at a time."""


class Relay:
    """The unfinished episodes of one batch."""

    def __init__(self, batch_id: UUID, folder: Path) -> None:
        self.batch_id = batch_id
        self._folder = folder / FOLDER
        self._mtimes: dict[str, int] = {}
        self._paths: dict[str, Path] = {}

    def scan(self) -> bool:
        """Look for unfinished episodes; True if some have ended, so that their trajectories can be stored first."""
        try:
            self._paths = {path.stem: path for path in sorted(self._folder.glob("*.json"))}
        except OSError:  # the trainer recreates the folder when it starts
            return False
        return any(name not in self._paths for name in self._mtimes)

    def forward(self) -> bool:
        """Relay what the last scan found; returns whether it found anything."""
        with best_effort(self.batch_id):
            return self._forward()
        return False

    def end(self) -> None:
        """Mark all episodes as ended."""
        with best_effort(self.batch_id):
            for name in list(self._mtimes):
                self._end(name)

    def _forward(self) -> bool:
        ended = [name for name in self._mtimes if name not in self._paths]
        for name in ended:
            self._end(name)
        is_new = bool(ended)
        for name, path in self._paths.items():
            if name not in self._mtimes and len(self._mtimes) >= MAX_EPISODES:
                continue
            try:
                mtime, body = path.stat().st_mtime_ns, path.read_bytes()
            except FileNotFoundError:  # it has just ended
                continue
            if self._mtimes.get(name) != mtime:
                self._mtimes[name] = mtime
                with suppress(BadRow, UnreadableJSON):  # its output line will say so; the others are shown
                    live_episodes.note(self.batch_id, name, body)
                    is_new = True
        return is_new

    def _end(self, name: str) -> None:
        del self._mtimes[name]
        live_episodes.end(self.batch_id, name)
