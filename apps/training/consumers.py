"""Websockets: a run, and a batch of rollouts."""

from uuid import UUID

from apps.accounts.models import Membership
from apps.common.live import LiveConsumer
from apps.training.live import rollouts_group, run_group
from apps.training.models import Run
from apps.trajectories.models import RolloutBatch


class RunConsumer(LiveConsumer):
    """Everything that happens to one run."""

    def find_group(self, member: Membership) -> str | None:
        run_id: UUID = self.scope["url_route"]["kwargs"]["run_id"]
        return run_group(run_id) if Run.objects.visible_to(member).filter(pk=run_id).exists() else None


class RolloutsConsumer(LiveConsumer):
    """Everything that happens to one batch of rollouts."""

    def find_group(self, member: Membership) -> str | None:
        batch_id: UUID = self.scope["url_route"]["kwargs"]["batch_id"]
        return (
            rollouts_group(batch_id) if RolloutBatch.objects.visible_to(member).filter(pk=batch_id).exists() else None
        )
