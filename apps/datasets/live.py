"""Live updates for the pages of a version that is being frozen."""

from uuid import UUID

from django.template.loader import render_to_string

from apps.accounts.models import Membership
from apps.common import live
from apps.common.live import LiveConsumer
from apps.datasets.models import Version


def group_of(version_id: UUID) -> str:
    """The live group of a version's open pages."""
    return f"version.{version_id}"


def version_changed(version_id: UUID) -> None:
    """Send the version's progress to its open pages."""
    version = Version.objects.select_related("dataset").get(pk=version_id)
    live.send(group_of(version_id), render_to_string("datasets/_progress.html", {"version": version}))


class VersionConsumer(LiveConsumer):
    """Live progress of a version that is being frozen."""

    def find_group(self, member: Membership) -> str | None:
        version_id: UUID = self.scope["url_route"]["kwargs"]["version_id"]
        visible = Version.objects.visible_to(member).filter(pk=version_id).exists()
        return group_of(version_id) if visible else None
