"""What every kind of judgment has in common."""

from __future__ import annotations

from typing import Self, TypeVar

from django.db import models

from apps.accounts.models import Membership, Role, WorkspaceModel, WorkspaceQuerySet
from apps.annotation.models.items import Assignment, Item
from apps.annotation.models.queues import Annotator, Queue

J = TypeVar("J", bound="Judgement")


def on_desk_of(member: Membership) -> models.QuerySet[Assignment, int]:
    """The items that this member was given and hasn't answered."""
    held = Assignment.objects.filter(annotator__user=member.user_id, state=Assignment.State.OPEN)
    return held.values_list("item", flat=True)


class JudgementQuerySet(WorkspaceQuerySet[J]):
    def visible_to(self, member: Membership, *, at_least: Role | None = None) -> Self:
        """Not those of items that this member has on their own desk: whoever judges answers before they read what others said."""
        return super().visible_to(member, at_least=at_least).exclude(item__in=on_desk_of(member))

    def standing(self) -> Self:
        """Those that nobody took back."""
        return self.filter(retracted_at=None)


class Judgement(WorkspaceModel):
    """What one annotator said of one item. Never changed; taking it back sets `retracted_at`, and a new one may follow."""

    visible_from = Role.REVIEWER

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="%(class)ss", db_index=False)
    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="%(class)ss")
    annotator = models.ForeignKey(Annotator, on_delete=models.PROTECT, related_name="%(class)ss")
    assignment = models.OneToOneField(Assignment, on_delete=models.PROTECT, related_name="%(class)s")
    guideline_version = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(help_text="Time at work: pauses without input do not count.")
    retracted_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
