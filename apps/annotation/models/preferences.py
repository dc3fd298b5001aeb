"""The judgements."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from apps.accounts.models import Role, WorkspaceModel, WorkspaceQuerySet
from apps.annotation.models.items import Assignment, Item
from apps.annotation.models.queues import Annotator, Queue


class PreferenceQuerySet(WorkspaceQuerySet["Preference"]):
    def standing(self) -> Self:
        """Those that nobody took back."""
        return self.filter(retracted_at=None)


class Preference(WorkspaceModel):
    """A graded choice between the two runs of an item. Never changed; taking it back sets `retracted_at`, and a new one may follow."""

    visible_from = Role.REVIEWER

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="preferences", db_index=False)
    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="preferences")
    annotator = models.ForeignKey(Annotator, on_delete=models.PROTECT, related_name="preferences")
    assignment = models.OneToOneField(Assignment, on_delete=models.PROTECT, related_name="preference")
    strength = models.SmallIntegerField(help_text="In favour of run a: +3 much better … 0 tie … −3 b much better.")
    both_bad = models.BooleanField(default=False)
    rationale = models.TextField(blank=True)
    a_was_left = models.BooleanField()
    guideline_version = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(help_text="Time at work: pauses without input do not count.")
    retracted_at = models.DateTimeField(null=True)

    objects = PreferenceQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["item", "annotator"],
                condition=Q(retracted_at=None),
                name="one_judgement_per_annotator",
            ),
            CheckConstraint(condition=Q(strength__range=(-3, 3)), name="strength_is_minus3_to_3"),
            CheckConstraint(condition=Q(both_bad=False) | Q(strength=0), name="both_bad_has_no_side"),
            CheckConstraint(condition=Q(seconds__gte=0), name="seconds_are_not_negative"),
        ]
        indexes = [
            Index(fields=["annotator", "-id"], name="preference_of_annotator"),
            Index(fields=["workspace", "-id"], name="preference_newest"),
            Index(fields=["queue", "-id"], name="preference_of_queue"),
        ]
