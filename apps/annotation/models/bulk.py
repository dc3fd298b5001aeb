"""Bulk actions, stored for undo; and the people that items are assigned to."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

from apps.accounts.models import User, WorkspaceModel, WorkspaceQuerySet
from apps.annotation.models.items import Item
from apps.annotation.models.queues import Queue


class ItemAssignee(models.Model):
    """An item is reserved for this person and its other assignees. Items without assignees are for everybody who may label."""

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="assignees", db_index=False)
    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [UniqueConstraint(fields=["item", "user"], name="one_assignee_per_item_and_person")]
        indexes = [Index(fields=["queue", "item"], name="assignee_of_queue")]


class BulkAct(WorkspaceModel):
    """One action on many items or trajectories: its author, and the data to undo it."""

    class Kind(models.TextChoices):
        LABEL = "label", "Labeled"
        ASSIGN = "assign", "Assigned"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="bulk_acts", db_index=False)
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    words = models.CharField(max_length=300, help_text="Description of the action for people.")
    count = models.PositiveIntegerField(help_text="Number of items affected.")
    before = models.JSONField(default=dict, help_text="For assigning: each item's previous assignees.")
    undone_at = models.DateTimeField(null=True)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        indexes = [
            Index(fields=["workspace", "-id"], name="bulk_act_newest"),
            Index(fields=["queue", "-id"], name="bulk_act_of_queue"),
        ]

    def __str__(self) -> str:
        return self.words
