"""Judgments: the common base, then preferences, ratings, and step-by-step inspections."""

from __future__ import annotations

from typing import ClassVar, Self, TypeVar

from django.db import models
from django.db.models import CheckConstraint, Exists, F, Index, OuterRef, Q, UniqueConstraint

from apps.accounts.models import Membership, Role, WorkspaceModel
from apps.annotation.models.items import Assignment, Item, OpinionQuerySet
from apps.annotation.models.queues import Annotator, Queue
from apps.annotation.models.reviews import Adjudication
from apps.common.fields import FaithfulJSONField
from apps.policies.models import Policy
from apps.trajectories.models import Trajectory

J = TypeVar("J", bound="Judgment")
NONE = models.Value({}, models.JSONField())


def undecided_for(member: Membership) -> models.QuerySet[Item]:
    """The items that a reviewer may still have to decide blind: disputed ones, and those that the next judgment may make disputed.
    Excludes items the member has judged. Empty for other roles: researchers manage the queue and see everything.
    """
    if member.role != Role.REVIEWER:
        return Item.objects.none()
    judged_by_member = Assignment.objects.filter(
        item=OuterRef("pk"), annotator__user=member.user_id, state=Assignment.State.JUDGED
    )
    decided = Adjudication.objects.valid().filter(item=OuterRef("pk"))
    unsettled = Q(disputed=True) | Q(purpose=Item.Purpose.WORK, overlap__gt=1, judged__lt=F("overlap"))
    return Item.objects.filter(unsettled, ~Exists(judged_by_member), ~Exists(decided), queue__blind_review=True)


class JudgmentQuerySet(OpinionQuerySet[J]):
    def visible_to(self, member: Membership, *, at_least: Role | None = None) -> Self:
        """Also leaves out items that this member may have to decide."""
        judgments = super().visible_to(member, at_least=at_least)
        if member.role == Role.REVIEWER and self.model.reviewers_answer:
            judgments = judgments.exclude(Exists(undecided_for(member).filter(pk=OuterRef("item"))))
        return judgments

    def valid(self) -> Self:
        """Judgments that weren't withdrawn."""
        return self.filter(retracted_at=None)


class Judgment(WorkspaceModel):
    """One annotator's judgment of one item. Never changed; withdrawing it sets `retracted_at`, and a new one may follow."""

    visible_from = Role.REVIEWER
    reviewers_answer: ClassVar[bool] = False
    """Whether reviewers answer the question themselves, possibly blind; otherwise they choose which judgment to uphold."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="%(class)ss", db_index=False)
    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="%(class)ss")
    annotator = models.ForeignKey(Annotator, on_delete=models.PROTECT, related_name="%(class)ss")
    assignment = models.OneToOneField(Assignment, on_delete=models.PROTECT, related_name="%(class)s")
    guideline_version = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(help_text="Working time, excluding pauses without input.")
    retracted_at = models.DateTimeField(null=True)
    answers = models.JSONField(
        default=dict,
        db_default=NONE,
        help_text="Question key -> answer: a point, an option, a list of options, or text.",
    )
    rationale = models.TextField(blank=True)

    class Meta:
        abstract = True


class TrajectoryJudgment(Judgment):
    """A judgment of a single trajectory, some of whose questions may be asked about every step."""

    step_answers = models.JSONField(
        default=dict, db_default=NONE, help_text="Step index -> question key -> answer for that step."
    )

    class Meta:
        abstract = True


class PreferenceQuerySet(JudgmentQuerySet["Preference"]):
    pass


class Preference(Judgment):
    """A graded choice between the two trajectories of an item."""

    reviewers_answer = True

    strength = models.SmallIntegerField(
        help_text="In favor of trajectory a: +3 much better … 0 tie … −3 b much better."
    )
    both_bad = models.BooleanField(default=False)
    aspects = models.JSONField(
        default=dict,
        help_text="Key of a comparison question -> grade in favor of trajectory a, on the question's scale.",
    )
    confidence = models.PositiveSmallIntegerField(null=True, help_text="1 unsure, 2 fairly sure, 3 sure.")
    # Null also for models, which judge both orders, or each trajectory by itself.
    a_was_left = models.BooleanField(null=True, help_text="Null: judged elsewhere, side not recorded.")

    objects = PreferenceQuerySet.as_manager()

    @property
    def a_is_shown_left(self) -> bool:
        """Whether trajectory a was on the left, for text that refers to sides; true if it wasn't recorded."""
        return self.a_was_left is not False

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["item", "annotator"],
                condition=Q(retracted_at=None),
                name="one_judgment_per_annotator",
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


class RatingQuerySet(JudgmentQuerySet["Rating"]):
    pass


class Rating(TrajectoryJudgment):
    """A trajectory's answers to the questions of its queue, a thumb, and marks on steps."""

    thumb = models.SmallIntegerField(null=True, help_text="+1 up, −1 down.")

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
    """An event at one step of a rated trajectory."""

    class Kind(models.TextChoices):
        SUBGOAL = "subgoal", "Sub-goal reached"
        SOFT_VIOLATION = "soft_violation", "Safety: soft violation"
        HARD_VIOLATION = "hard_violation", "Safety: hard violation"

    rating = models.ForeignKey(Rating, on_delete=models.CASCADE, related_name="marks", db_index=False)
    index = models.PositiveIntegerField(help_text="0-based index of the step.")
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


class InspectionQuerySet(JudgmentQuerySet["Inspection"]):
    pass


class Inspection(TrajectoryJudgment):
    """A step-by-step inspection of a trajectory, and its ending (as in PRM800K: Lightman et al., 2023, appendix D)."""

    class Ending(models.TextChoices):
        FOUND_ERROR = "found_error", "Found the first error"
        SOLVED = "solved", "No error"
        BAD_PROBLEM = "bad_problem", "Bad task"
        GIVE_UP = "give_up", "Gave up"
        EDITED = "edited", "Edited the answer"

    ending = models.CharField(max_length=20, choices=Ending.choices)
    first_error = models.PositiveIntegerField(null=True, help_text="0-based index of the first wrong step.")

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
                condition=Q(ending__in=["found_error", "solved", "bad_problem", "give_up", "edited"]),
                name="ending_is_known",
            ),
            CheckConstraint(condition=Q(seconds__gte=0), name="inspections_take_time"),
        ]
        indexes = [
            Index(fields=["annotator", "-id"], name="inspection_of_annotator"),
            Index(fields=["workspace", "-id"], name="inspection_newest"),
            Index(fields=["queue", "-id"], name="inspection_of_queue"),
        ]


class StepLabel(models.Model):
    """One annotator's label of one step of the inspected trajectory (the item's `a`)."""

    inspection = models.ForeignKey(Inspection, on_delete=models.CASCADE, related_name="labels", db_index=False)
    index = models.PositiveIntegerField(help_text="0-based index of the step.")
    value = models.SmallIntegerField(help_text="+1 good, 0 neutral, −1 bad.")
    is_filled = models.BooleanField(
        default=False, help_text="Implied by the first error; the step itself wasn't labeled."
    )
    critique = models.TextField(blank=True)
    spans = FaithfulJSONField(
        default=list,
        help_text="Marked passages: part (said, reasoning, call, …), start (character offset in the part's text), quote, note.",
    )

    class Meta:
        constraints = [
            UniqueConstraint(fields=["inspection", "index"], name="one_label_per_step"),
            CheckConstraint(condition=Q(value__range=(-1, 1)), name="label_is_minus1_to_1"),
        ]
        ordering = ["index"]


class Correction(models.Model):
    """A better action at one step of the inspected trajectory, in place of the policy's own."""

    class Origin(models.TextChoices):
        WRITTEN = "written", "Written by the annotator"
        SAMPLED = "sampled", "Chosen among actions sampled from a policy"

    inspection = models.ForeignKey(Inspection, on_delete=models.CASCADE, related_name="corrections", db_index=False)
    index = models.PositiveIntegerField(help_text="0-based index of the corrected step.")
    message = FaithfulJSONField(help_text="The assistant message: content, reasoning_content, tool_calls.")
    origin = models.CharField(max_length=10, choices=Origin.choices)
    policy = models.ForeignKey(
        Policy,
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        help_text="The policy that the action was sampled from, if any.",
    )
    branch = models.ForeignKey(
        Trajectory,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="The trajectory that continues from this action, if the annotator requested one.",
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
