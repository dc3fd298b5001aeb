"""Episodes of a training run that external runners play: how its trainer requests them, and how its worker answers.

Both write files into the run's folder, atomically:

    episodes/<batch>.json        the trainer's request; while it exists, runners can lease these episodes
    episodes/<batch>/<id>.json   the worker's answer for one of them

An episode may have several chats: sub-agents have their own, and an agent that summarizes its history begins another. The longest is the
episode's trajectory; of the others, only the tokens matter.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from uuid_utils.compat import uuid7

from contract import jsontext
from contract.atomic_files import write_atomically
from contract.trajectory import Task, Trajectory
from contract.values import BadRow

FOLDER = "episodes"


def new_batch_id() -> str:
    """A UUID that sorts by age: runners play the oldest batch first."""
    return str(uuid7())


@dataclass(frozen=True)
class WantedEpisode:
    """One attempt at a task."""

    id: str
    """A UUID."""
    task: Task
    attempt: int
    """Index among the attempts at this task in its batch."""


@dataclass(frozen=True, slots=True)
class CallTokens:
    """The tokens of one call of a chat."""

    call: str
    """The call's id, which sorts by time. Chats that share a beginning share its calls."""
    context: list[int]
    """The prompt's tokens beyond those of the call before; all of them where a chat begins or is broken."""
    sampled: list[int]
    """What the policy wrote; empty if its tokens are unknown."""
    is_break: bool = False
    """Whether the prompt doesn't extend the tokens of the call before."""

    @classmethod
    def of_step(cls, call: str, info: Mapping[str, Any]) -> Self:
        """From what the gateway records of a step."""
        return cls(call, info.get("context_ids", []), info.get("token_ids", []), "seam" in info)

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Raises LookupError, TypeError."""
        return cls(data["call"], data["context"], data["sampled"], data["is_break"])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Chat = Sequence[CallTokens]
"""The calls of a chat, from its beginning."""


@dataclass(frozen=True)
class PlayedEpisode:
    """What a policy did in an episode."""

    rollout: Trajectory
    """Its longest chat, with the outcome."""
    others: tuple[Chat, ...] = ()
    """Its other chats, the longest first."""


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
            WantedEpisode(episode["id"], Task.from_json(episode["task"]), episode["attempt"])
            for episode in data["episodes"]
        )
        return cls(
            data["id"], data["moment"], data["address"], data["lease_seconds"], data["most_calls"], episodes=episodes
        )

    def to_json(self) -> dict[str, Any]:
        episodes = [
            {"id": episode.id, "task": episode.task.to_json(), "attempt": episode.attempt} for episode in self.episodes
        ]
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
        write_atomically(self.path / f"{batch.id}.json", jsontext.dumps(batch.to_json()))

    def close(self) -> None:
        """Withdraw the request."""
        for request in self.path.glob("*.json"):
            request.unlink(missing_ok=True)
        for answers in self.path.glob("*/"):
            shutil.rmtree(answers, ignore_errors=True)  # the worker may be writing an answer

    def batch(self) -> Batch | None:
        """The batch that the trainer is requesting now."""
        for request in self.path.glob("*.json"):
            try:
                return Batch.from_json(jsontext.loads(request.read_bytes()))
            except FileNotFoundError:
                return None
            except (BadRow, LookupError, TypeError, jsontext.UnreadableJSON) as problem:
                raise ValueError(f"{request} isn't a batch of episodes: {problem}") from None
        return None

    def answer(self, batch: Batch, episode_id: str, played: PlayedEpisode | None) -> None:
        """Give the trainer what happened in an episode; None if nobody could play it. Raises OSError."""
        folder = self.path / batch.id
        if not (self.path / f"{batch.id}.json").exists():
            return
        payload: dict[str, Any] = {"trajectory": None}
        if played is not None:
            others = [[call.to_json() for call in chat] for chat in played.others]
            payload = {"trajectory": played.rollout.to_json(), "others": others}
        with suppress(FileNotFoundError):  # the trainer is withdrawing the request
            folder.mkdir(exist_ok=True)
            write_atomically(folder / f"{episode_id}.json", jsontext.dumps(payload))

    def answered(self, batch: Batch) -> set[str]:
        """The ids of the answered episodes."""
        return {file.stem for file in (self.path / batch.id).glob("*.json")}

    def answers(self, batch: Batch, *, but: set[str]) -> Iterator[tuple[str, PlayedEpisode | None]]:
        """The worker's answers for episodes other than `but`. Raises BadRow, LookupError, TypeError."""
        for episode_id in sorted(self.answered(batch) - but):
            payload = jsontext.loads((self.path / batch.id / f"{episode_id}.json").read_bytes())
            if payload["trajectory"] is None:
                yield episode_id, None
                continue
            others = tuple([CallTokens.from_json(call) for call in chat] for chat in payload["others"])
            yield episode_id, PlayedEpisode(Trajectory.from_json(payload["trajectory"]), others)
