"""Episodes in progress: kept in the cache for a while by the worker that plays them, and followed on pages.

Nothing here is stored: when an episode ends it becomes a trajectory, and the pages that followed it link there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from uuid import UUID

from django.core.cache import cache
from django.template.loader import render_to_string

from apps.accounts.models import Membership
from apps.common import live
from apps.common.live import LiveConsumer
from apps.ingest.reading import read_line
from apps.trajectories import unsaved
from apps.trajectories.comparison.actions import digest_of
from apps.trajectories.models import RolloutBatch, Step, Trajectory
from apps.trajectories.outlines import clip
from apps.trajectories.unsaved import LiveStep
from contract.messages import Message

KEPT_SECONDS = 3600
MAX_BYTES = 4_000_000
"""A longer record is no longer followed; it's stored whole when the episode ends. Dozens are kept at a time, and Valkey is also the workers' broker."""


@dataclass(frozen=True)
class Episode:
    """An attempt that is in progress or has just ended."""

    name: str
    """Unique within its batch; part of URLs."""
    identifier: str
    """The external id of the resulting trajectory."""
    task: str
    instruction: str
    steps: int
    ended: bool = False


def group_of(batch_id: UUID, name: str) -> str:
    """The channel group for an episode."""
    return f"episode.{batch_id}.{name}"


def note(batch_id: UUID, name: str, body: bytes) -> Episode:
    """Store an episode's current record and notify its followers. Raises BadRow or UnreadableJSON."""
    record = read_line(body)
    episode = Episode(
        name=name,
        identifier=clip(record.id, 300),
        task=clip(record.task.key, 300),
        instruction=clip(record.task.instruction, 300),
        steps=len(record.steps),
    )
    if len(body) <= MAX_BYTES:
        cache.set(_record_key(batch_id, name), body, KEPT_SECONDS)
    _cache_episode(batch_id, episode)
    return episode


def end(batch_id: UUID, name: str) -> None:
    """Mark the episode as ended, and forget its record; its trajectory is stored unless its batch was stopped. Idempotent."""
    episode = episode_of(batch_id, name)
    if episode and not episode.ended:
        cache.delete(_record_key(batch_id, name))
        _cache_episode(batch_id, Episode(**{**asdict(episode), "ended": True}))


def end_all(batch_id: UUID) -> None:
    """End all episodes of a batch that is no longer played, or is being restarted."""
    for episode in playing(batch_id):
        end(batch_id, episode.name)


def playing(batch_id: UUID) -> list[Episode]:
    """The batch's episodes in progress."""
    cached = cache.get_many([_key(batch_id, name) for name in json.loads(cache.get(_names_key(batch_id), "[]"))])
    episodes = [Episode(**json.loads(value)) for value in cached.values()]
    return sorted((episode for episode in episodes if not episode.ended), key=lambda episode: episode.identifier)


def episode_of(batch_id: UUID, name: str) -> Episode | None:
    """An episode in progress or recently ended."""
    value = cache.get(_key(batch_id, name))
    return Episode(**json.loads(value)) if value else None


def trajectory_of(batch_id: UUID, episode: Episode) -> Trajectory | None:
    """The trajectory of an ended episode."""
    return Trajectory.objects.filter(rollout_batch=batch_id, external_id=episode.identifier).first()


def steps_of(batch_id: UUID, name: str) -> tuple[list[Step], list[Message]]:
    """The steps so far, as unsaved rows, and the environment's answer to the last one."""
    body = cache.get(_record_key(batch_id, name))
    if body is None:
        return [], []
    record = read_line(body)
    return unsaved.steps_of(record), list(record.closing)


def views_from(batch_id: UUID, name: str, first: int, part_url: str) -> list[LiveStep]:
    """The steps from `first` on, opened; `part_url` is completed with a step's index."""
    steps, answer = steps_of(batch_id, name)
    marks = [digest_of(step.message).hex() for step in steps]
    return unsaved.views_from(steps, answer, first, part_url, marks)


def state_of(batch_id: UUID, episode: Episode) -> str:
    """The partial with the episode's progress."""
    trajectory = trajectory_of(batch_id, episode) if episode.ended else None
    return render_to_string("trajectories/_episode_state.html", {"episode": episode, "trajectory": trajectory})


def _cache_episode(batch_id: UUID, episode: Episode) -> None:
    cache.set(_key(batch_id, episode.name), json.dumps(asdict(episode)), KEPT_SECONDS)
    # Only one worker holds a batch, so nothing else writes the names concurrently.
    names = set(json.loads(cache.get(_names_key(batch_id), "[]")))
    names = names - {episode.name} if episode.ended else names | {episode.name}
    cache.set(_names_key(batch_id), json.dumps(sorted(names)), KEPT_SECONDS)
    live.send(group_of(batch_id, episode.name), state_of(batch_id, episode))


def _key(batch_id: UUID, name: str) -> str:
    return f"episode.{batch_id}.{name}"


def _names_key(batch_id: UUID) -> str:
    return f"episodes.{batch_id}"


def _record_key(batch_id: UUID, name: str) -> str:
    return f"episode.{batch_id}.{name}.record"


class EpisodeConsumer(LiveConsumer):
    """Progress of one episode."""

    def find_group(self, member: Membership) -> str | None:
        kwargs = self.scope["url_route"]["kwargs"]
        batch_id: UUID = kwargs["batch_id"]
        if not RolloutBatch.objects.visible_to(member).filter(pk=batch_id).exists():
            return None
        return group_of(batch_id, kwargs["name"])
