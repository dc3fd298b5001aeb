"""Reviewers' decisions on disputed items, and the discussion with annotators."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from apps.accounts.models import Role, User, WorkspaceModel
from apps.annotation.models.items import Item, OpinionQuerySet
from apps.annotation.models.queues import Annotator, Queue


class AdjudicationQuerySet(OpinionQuerySet["Adjudication"]):
    def valid(self) -> Self:
        """Decisions that weren't replaced by a later one."""
        return self.filter(retracted_at=None)


class Adjudication(WorkspaceModel):
    """A reviewer's decision about an item: a grade of their own for a pair, the upheld judgment for a single trajectory.

    Never changed; another decision withdraws and follows this one.
    """

    visible_from = Role.REVIEWER

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="adjudications", db_index=False)
    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="adjudications")
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    strength = models.SmallIntegerField(null=True, help_text="In favor of trajectory a, like a preference's strength.")
    both_bad = models.BooleanField(default=False)
    upheld = models.UUIDField(null=True, help_text="Id of the upheld judgment: an inspection or a rating.")
    reason = models.TextField()
    was_blind = models.BooleanField(help_text="Decided before seeing others' judgments.")
    retracted_at = models.DateTimeField(null=True)

    objects = AdjudicationQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["item"], condition=Q(retracted_at=None), name="one_adjudication_per_item"),
            CheckConstraint(
                condition=Q(strength__isnull=False, upheld=None) | Q(strength=None, upheld__isnull=False),
                name="adjudications_decide_one_way",
            ),
            CheckConstraint(condition=Q(strength=None) | Q(strength__range=(-3, 3)), name="decision_is_minus3_to_3"),
            CheckConstraint(condition=~Q(reason=""), name="decisions_have_a_reason"),
        ]
        indexes = [Index(fields=["queue", "-id"], name="adjudication_of_queue")]


class Remark(WorkspaceModel):
    """A remark on one annotator's judgment of an item, from a reviewer or in reply from the annotator."""

    visible_from = Role.REVIEWER

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="remarks", db_index=False)
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="remarks")
    annotator = models.ForeignKey(
        Annotator,
        on_delete=models.CASCADE,
        related_name="remarks",
        help_text="The annotator whose judgment the remark is about.",
    )
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    text = models.TextField()

    class Meta:
        constraints = [CheckConstraint(condition=~Q(text=""), name="remarks_say_something")]
        indexes = [Index(fields=["queue", "annotator", "-id"], name="remark_to_annotator")]
