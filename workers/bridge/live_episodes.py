"""Relays the progress of unfinished episodes to live pages; failures here don't affect the rollout."""

from pathlib import Path
from uuid import UUID

from apps.common.live import best_effort
from apps.trajectories.rollouts import live_episodes
from trainer.rollouts.unfinished import FOLDER

MOST_FOLLOWED = 40
"""Maximum number of episodes of a batch relayed at a time."""


class Relay:
    """The unfinished episodes of one batch."""

    def __init__(self, batch_id: UUID, folder: Path) -> None:
        self.batch_id = batch_id
        self._folder = folder / FOLDER
        self._seen: dict[str, int] = {}
        self._there: dict[str, Path] = {}

    def look(self) -> bool:
        """Look for unfinished episodes; True if some have ended, so that their trajectories can be stored first."""
        try:
            self._there = {path.stem: path for path in sorted(self._folder.glob("*.json"))}
        except OSError:  # the trainer recreates the folder when it starts
            return False
        return any(name not in self._there for name in self._seen)

    def pass_on(self) -> bool:
        """Relay what was new at the last look; returns whether anything was."""
        with best_effort(self.batch_id):
            return self._pass_on()
        return False

    def end(self) -> None:
        """Mark all episodes as ended."""
        with best_effort(self.batch_id):
            for name in list(self._seen):
                self._end(name)

    def _pass_on(self) -> bool:
        gone = [name for name in self._seen if name not in self._there]
        for name in gone:
            self._end(name)
        is_new = bool(gone)
        for name, path in self._there.items():
            if name not in self._seen and len(self._seen) >= MOST_FOLLOWED:
                continue
            try:
                written, body = path.stat().st_mtime_ns, path.read_bytes()
            except FileNotFoundError:  # it has just ended
                continue
            if self._seen.get(name) != written:
                live_episodes.note(self.batch_id, name, body)
                self._seen[name] = written
                is_new = True
        return is_new

    def _end(self, name: str) -> None:
        del self._seen[name]
        live_episodes.end(self.batch_id, name)
