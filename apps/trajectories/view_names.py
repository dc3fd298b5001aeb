"""Named saved filters of the list of trajectories."""

from __future__ import annotations

from django.db import transaction

from apps.accounts.models import User, Workspace
from apps.common.text_encoding import is_storable
from apps.trajectories.filters import Filters
from apps.trajectories.models import SavedView

MAX_VIEWS = 30
MAX_QUERY_LENGTH = 2_000


class ViewRefused(Exception):
    """Why a view can't be saved, and what to do."""


@transaction.atomic
def save_view(*, workspace: Workspace, name: str, filters: Filters, by: User) -> SavedView:
    """Save these filters under this name; saving the same filters again renames the view. Raises ViewRefused."""
    name = name.strip()
    if not filters:
        raise ViewRefused("There are no filters to save. Choose some first.")
    if len(filters.query) > MAX_QUERY_LENGTH:
        raise ViewRefused("These filters are too long to save. Shorten the words to search for.")
    if not name:
        raise ViewRefused("A view needs a name.")
    if not is_storable(name):
        raise ViewRefused("The name holds a character that cannot be stored, such as NUL. Leave it out.")
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    views = SavedView.objects.filter(workspace=workspace)
    existing = views.filter(name=name).first()
    if existing and existing.query != filters.query:
        raise ViewRefused(f"There is another view called “{name}”. Choose another name, or remove that one.")
    same = existing or views.filter(query=filters.query).first()
    if same:
        same.name = name
        same.save(update_fields=["name"])
        return same
    if views.count() >= MAX_VIEWS:
        raise ViewRefused(f"There are {MAX_VIEWS} views, the most that a workspace keeps. Remove one first.")
    return SavedView.objects.create(workspace=workspace, name=name, query=filters.query, created_by=by)


def remove_view(*, view: SavedView) -> None:
    """Delete a view. Idempotent."""
    SavedView.objects.filter(pk=view.pk).delete()
