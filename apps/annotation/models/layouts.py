"""Desk layouts. They affect neither the content shown nor its sides and order."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from apps.accounts.models import User
from apps.annotation.models.queues import Queue
from apps.common.ids import new_id

MAX_NAME_LENGTH = 60


class DeskLayout(models.Model):
    """A layout that a person saved under a name and can choose in any queue."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="desk_layouts", db_index=False)
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    settings = models.JSONField(default=dict, help_text="Format: see `desk.layouts`.")

    class Meta:
        constraints = [UniqueConstraint(fields=["user", "name"], name="one_layout_per_name")]

    def __str__(self) -> str:
        return self.name


class LayoutChoice(models.Model):
    """A person's layout in one queue or, with `kind`, in all queues of that kind where they made no other choice."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    kind = models.CharField(max_length=10, null=True, choices=Queue.Kind.choices, help_text="Set if `queue` is null.")
    layout = models.ForeignKey(
        DeskLayout, on_delete=models.SET_NULL, null=True, related_name="choices", help_text="Null: the queue's default."
    )
    changes = models.JSONField(default=dict, help_text="Settings that differ from the layout and aren't saved in it.")
    undo = models.JSONField(default=dict, help_text="State before the last action; see `desk.layouts.undo`.")

    class Meta:
        constraints = [
            UniqueConstraint(fields=["user", "queue"], name="one_choice_per_queue"),
            UniqueConstraint(fields=["user", "kind"], name="one_choice_per_kind"),
            CheckConstraint(condition=Q(queue=None) ^ Q(kind=None), name="a_choice_is_of_a_queue_or_a_kind"),
        ]
        indexes = [Index(fields=["queue"], name="choice_of_queue")]
