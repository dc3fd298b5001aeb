"""Judgments of pairs."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from apps.annotation.models.judgements import Judgement, JudgementQuerySet


class PreferenceQuerySet(JudgementQuerySet["Preference"]):
    pass


class Preference(Judgement):
    """A graded choice between the two runs of an item."""

    reviewers_answer = True

    strength = models.SmallIntegerField(
        help_text="In favor of trajectory a: +3 much better … 0 tie … −3 b much better."
    )
    both_bad = models.BooleanField(default=False)
    aspects = models.JSONField(
        default=dict,
        help_text="Key of an aspect -> its grade in favor of trajectory a, on the scale that the queue gave it.",
    )
    confidence = models.PositiveSmallIntegerField(null=True, help_text="1 unsure, 2 fairly sure, 3 sure.")
    rationale = models.TextField(blank=True)
    a_was_left = models.BooleanField(null=True, help_text="Null: judged elsewhere, and nothing says it.")

    objects = PreferenceQuerySet.as_manager()

    @property
    def a_is_shown_left(self) -> bool:
        """Where it is told by sides."""
        return self.a_was_left is not False

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
            CheckConstraint(condition=Q(confidence=None) | Q(confidence__range=(1, 3)), name="confidence_is_1_to_3"),
        ]
        indexes = [
            Index(fields=["annotator", "-id"], name="preference_of_annotator"),
            Index(fields=["workspace", "-id"], name="preference_newest"),
            Index(fields=["queue", "-id"], name="preference_of_queue"),
        ]
