"""Judgments of a run, step by step: labels, and better actions."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from apps.annotation.models.judgements import Judgement, JudgementQuerySet
from apps.common.fields import FaithfulJSONField
from apps.policies.models import Policy
from apps.trajectories.models import Trajectory


class InspectionQuerySet(JudgementQuerySet["Inspection"]):
    pass


class Inspection(Judgement):
    """A run gone through step by step, and how that ended (the ways of PRM800K: Lightman et al., 2023, appendix D)."""

    class Ending(models.TextChoices):
        FOUND_ERROR = "found_error", "Found the first error"
        SOLVED = "solved", "No error"
        BAD_PROBLEM = "bad_problem", "Bad task"
        GIVE_UP = "give_up", "Gave up"

    ending = models.CharField(max_length=20, choices=Ending.choices)
    first_error = models.PositiveIntegerField(null=True, help_text="Index of the first step that is wrong.")
    rationale = models.TextField(blank=True)

    objects = InspectionQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["item", "annotator"], condition=Q(retracted_at=None), name="one_inspection_per_annotator"
            ),
            CheckConstraint(
                condition=Q(ending="found_error", first_error__isnull=False)
                | (~Q(ending="found_error") & Q(first_error=None)),
                name="who_found_an_error_says_where",
            ),
            CheckConstraint(
                condition=Q(ending__in=["found_error", "solved", "bad_problem", "give_up"]), name="ending_is_known"
            ),
            CheckConstraint(condition=Q(seconds__gte=0), name="inspections_take_time"),
        ]
        indexes = [
            Index(fields=["annotator", "-id"], name="inspection_of_annotator"),
            Index(fields=["workspace", "-id"], name="inspection_newest"),
            Index(fields=["queue", "-id"], name="inspection_of_queue"),
        ]


class StepLabel(models.Model):
    """What one annotator said of one step of the run that they inspected (the item's run `a`)."""

    inspection = models.ForeignKey(Inspection, on_delete=models.CASCADE, related_name="labels", db_index=False)
    index = models.PositiveIntegerField(help_text="Of the step, from 0.")
    value = models.SmallIntegerField(help_text="+1 good, 0 neutral, −1 bad.")
    is_filled = models.BooleanField(
        default=False, help_text="Followed from the first error; the step wasn't labeled by itself."
    )
    critique = models.TextField(blank=True)
    spans = FaithfulJSONField(
        default=list,
        help_text="Marked words: part (said, reasoning, call, …), start (character in the part's text), quote, note.",
    )

    class Meta:
        constraints = [
            UniqueConstraint(fields=["inspection", "index"], name="one_label_per_step"),
            CheckConstraint(condition=Q(value__range=(-1, 1)), name="label_is_minus1_to_1"),
        ]
        ordering = ["index"]


class Correction(models.Model):
    """A better action at one step of the inspected run, in place of the one that the policy took there."""

    class Origin(models.TextChoices):
        WRITTEN = "written", "Written by the annotator"
        SAMPLED = "sampled", "Chosen among actions sampled from a policy"

    inspection = models.ForeignKey(Inspection, on_delete=models.CASCADE, related_name="corrections", db_index=False)
    index = models.PositiveIntegerField(help_text="Of the step that it corrects, from 0.")
    message = FaithfulJSONField(help_text="The assistant message: content, reasoning_content, tool_calls.")
    origin = models.CharField(max_length=10, choices=Origin.choices)
    policy = models.ForeignKey(
        Policy, on_delete=models.PROTECT, null=True, related_name="+", help_text="Whose action it is, where sampled."
    )
    branch = models.ForeignKey(
        Trajectory,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="The trajectory that continues from this action, where the annotator asked for one.",
    )

    class Meta:
        constraints = [
            UniqueConstraint(fields=["inspection", "index"], name="one_correction_per_step"),
            CheckConstraint(
                condition=Q(origin="written", policy=None) | Q(origin="sampled", policy__isnull=False),
                name="sampled_corrections_have_a_policy",
            ),
        ]
        ordering = ["index"]
