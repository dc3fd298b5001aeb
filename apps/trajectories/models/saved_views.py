"""Filters of the list of trajectories that people kept."""

from __future__ import annotations

from django.db import models
from django.db.models import UniqueConstraint

from apps.accounts.models import Role, User, WorkspaceModel, WorkspaceQuerySet


class SavedView(WorkspaceModel):
    """Filters of the list of trajectories under a name, for everyone in the workspace who may see the list."""

    visible_from = Role.REVIEWER

    name = models.CharField(max_length=60)
    query = models.CharField(max_length=2000, help_text="The query string, as `Filters.query` writes it.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["workspace", "name"], name="one_view_per_name"),
            UniqueConstraint(fields=["workspace", "query"], name="one_view_per_query"),
        ]

    def __str__(self) -> str:
        return self.name
