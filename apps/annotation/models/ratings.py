"""Judgments of a run as a whole."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from apps.annotation.models.judgements import Judgement, JudgementQuerySet


class RatingQuerySet(JudgementQuerySet["Rating"]):
    pass


class Rating(Judgement):
    """A run's answers to the questions of its queue, a thumb, and marks on what happened in it."""

    answers = models.JSONField(
        default=dict, help_text="Key of a question -> its answer, on the scale that the queue gave it."
    )
    thumb = models.SmallIntegerField(null=True, help_text="+1 up, −1 down.")
    rationale = models.TextField(blank=True)

    objects = RatingQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["item", "annotator"], condition=Q(retracted_at=None), name="one_rating_per_annotator"
            ),
            CheckConstraint(condition=Q(thumb=None) | Q(thumb__in=[-1, 1]), name="a_thumb_is_up_or_down"),
            CheckConstraint(condition=Q(seconds__gte=0), name="ratings_take_time"),
        ]
        indexes = [
            Index(fields=["annotator", "-id"], name="rating_of_annotator"),
            Index(fields=["workspace", "-id"], name="rating_newest"),
            Index(fields=["queue", "-id"], name="rating_of_queue"),
        ]


class Mark(models.Model):
    """Something that happened at one step of a rated run."""

    class Kind(models.TextChoices):
        SUBGOAL = "subgoal", "Sub-goal reached"
        SOFT_VIOLATION = "soft_violation", "Safety: soft violation"
        HARD_VIOLATION = "hard_violation", "Safety: hard violation"

    rating = models.ForeignKey(Rating, on_delete=models.CASCADE, related_name="marks", db_index=False)
    index = models.PositiveIntegerField(help_text="Of the step, from 0.")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            UniqueConstraint(fields=["rating", "index", "kind"], name="one_mark_of_a_kind_per_step"),
            CheckConstraint(
                condition=Q(kind__in=["subgoal", "soft_violation", "hard_violation"]), name="mark_is_known"
            ),
        ]
        ordering = ["index", "kind"]
