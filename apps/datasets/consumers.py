"""The live part of a version's page."""

from uuid import UUID

from apps.accounts.models import Membership
from apps.common.live import LiveConsumer
from apps.datasets.live import group_of
from apps.datasets.models import Version


class VersionConsumer(LiveConsumer):
    """Carries the progress of a version that is being frozen."""

    def find_group(self, member: Membership) -> str | None:
        version_id: UUID = self.scope["url_route"]["kwargs"]["version_id"]
        visible = Version.objects.visible_to(member).filter(pk=version_id).exists()
        return group_of(version_id) if visible else None
