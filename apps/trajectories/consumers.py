"""Websockets: an episode that is in progress."""

from uuid import UUID

from apps.accounts.models import Membership
from apps.common.live import LiveConsumer
from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts import live_episodes


class EpisodeConsumer(LiveConsumer):
    """How far one episode is."""

    def find_group(self, member: Membership) -> str | None:
        given = self.scope["url_route"]["kwargs"]
        batch_id: UUID = given["batch_id"]
        if not RolloutBatch.objects.visible_to(member).filter(pk=batch_id).exists():
            return None
        return live_episodes.group_of(batch_id, given["name"])
