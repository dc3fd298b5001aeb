"""Telling the pages that watch a version that it moved on."""

from uuid import UUID

from django.template.loader import render_to_string

from apps.common import live
from apps.datasets.models import Version


def group_of(version_id: UUID) -> str:
    """The live group of a version's watchers."""
    return f"version.{version_id}"


def version_changed(version_id: UUID) -> None:
    """Send the version's progress to its watchers."""
    version = Version.objects.select_related("dataset").get(pk=version_id)
    live.send(group_of(version_id), render_to_string("datasets/_progress.html", {"version": version}))
