"""Episodes of a training run that external runners play: how its trainer requests them, and how its worker answers.

Both write files into the run's folder, atomically:

    episodes/<batch>.json        the trainer's request; while it exists, runners can lease these episodes
    episodes/<batch>/<id>.json   the worker's answer for one of them
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from contract import jsontext
from contract.trajectory import Task, Trajectory
from contract.values import BadRow
from contract.whole_files import write_whole

FOLDER = "episodes"


@dataclass(frozen=True)
class WantedEpisode:
    """One attempt at a task."""

    id: str
    """A UUID."""
    task: Task
    attempt: int
    """Index among the attempts at this task in its batch."""


@dataclass(frozen=True)
class Batch:
    """The episodes that a policy must play before its weights are updated."""

    id: str
    """A UUID."""
    moment: str
    """The version of the policy, as a point in the training run, such as "step 3"."""
    address: str
    """The policy's address, for the gateway only: it contains a secret."""
    lease_seconds: int
    """A runner silent for this long loses its episode."""
    most_calls: int
    """Limits of one episode."""
    episodes: tuple[WantedEpisode, ...]

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Raises BadRow, LookupError, TypeError."""
        episodes = tuple(
            WantedEpisode(each["id"], Task.from_json(each["task"]), each["attempt"]) for each in data["episodes"]
        )
        return cls(
            data["id"], data["moment"], data["address"], data["lease_seconds"], data["most_calls"], episodes=episodes
        )

    def to_json(self) -> dict[str, Any]:
        episodes = [{"id": each.id, "task": each.task.to_json(), "attempt": each.attempt} for each in self.episodes]
        return {
            "id": self.id,
            "moment": self.moment,
            "address": self.address,
            "lease_seconds": self.lease_seconds,
            "most_calls": self.most_calls,
            "episodes": episodes,
        }


class EpisodeFolder:
    """The episode files of one run."""

    def __init__(self, run_folder: Path) -> None:
        self.path = run_folder / FOLDER

    def open(self, batch: Batch) -> None:
        """Request a batch. Requests by earlier processes of this run are dropped. Raises OSError."""
        self.path.mkdir(exist_ok=True)
        self.close()
        write_whole(self.path / f"{batch.id}.json", jsontext.dumps(batch.to_json()))

    def close(self) -> None:
        """Withdraw the request."""
        for wanted in self.path.glob("*.json"):
            wanted.unlink(missing_ok=True)
        for answers in self.path.glob("*/"):
            for file in answers.iterdir():
                file.unlink(missing_ok=True)
            answers.rmdir()

    def batch(self) -> Batch | None:
        """The batch that the trainer is requesting now."""
        for wanted in self.path.glob("*.json"):
            try:
                return Batch.from_json(jsontext.loads(wanted.read_bytes()))
            except FileNotFoundError:
                return None
            except (BadRow, LookupError, TypeError, jsontext.UnreadableJSON) as problem:
                raise ValueError(f"{wanted} isn't a batch of episodes: {problem}") from None
        return None

    def answer(self, batch: Batch, episode_id: str, trajectory: Trajectory | None) -> None:
        """Give the trainer an episode's trajectory; None if nobody could play it. Raises OSError."""
        place = self.path / batch.id
        if not (self.path / f"{batch.id}.json").exists():
            return
        place.mkdir(exist_ok=True)
        payload = {"trajectory": trajectory.to_json() if trajectory else None}
        write_whole(place / f"{episode_id}.json", jsontext.dumps(payload))

    def answered(self, batch: Batch) -> set[str]:
        """The ids of the answered episodes."""
        return {file.stem for file in (self.path / batch.id).glob("*.json")}

    def answers(self, batch: Batch, *, but: set[str]) -> Iterator[tuple[str, Trajectory | None]]:
        """The worker's answers for episodes other than `but`. Raises BadRow."""
        for episode_id in sorted(self.answered(batch) - but):
            payload = jsontext.loads((self.path / batch.id / f"{episode_id}.json").read_bytes())["trajectory"]
            yield episode_id, None if payload is None else Trajectory.from_json(payload)
