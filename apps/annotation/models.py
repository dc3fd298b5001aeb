"""Queues of items to judge, who is judging what right now, and the judgements."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint
from django.db.models.functions import Now
from django.utils.timezone import now

from apps.accounts.models import (
    Membership,
    Role,
    User,
    WorkspaceModel,
    WorkspaceQuerySet,
)
from apps.policies.models import Policy
from apps.trajectories.models import Task, Trajectory


class Annotator(WorkspaceModel):
    """Whoever judges: a person, a model (LLM judge, reward model) or a rule. Always shown as what it is."""

    class Kind(models.TextChoices):
        PERSON = "person", "Person"
        MODEL = "model", "Model"
        RULE = "rule", "Rule"

    visible_from = Role.REVIEWER

    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=200)
    membership = models.OneToOneField(Membership, on_delete=models.SET_NULL, null=True, related_name="annotator")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, null=True, related_name="+")

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["workspace", "kind", "name"],
                condition=~Q(kind="person"),
                name="one_machine_annotator_per_name",
            ),
            CheckConstraint(
                condition=Q(kind="person") | Q(membership=None),
                name="only_people_have_memberships",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class QueueQuerySet(WorkspaceQuerySet["Queue"]):
    def open(self) -> Self:
        return self.filter(state=Queue.State.OPEN)


class Queue(WorkspaceModel):
    """Items of one kind with one set of guidelines, each to be judged by `overlap` different annotators."""

    class Kind(models.TextChoices):
        PAIRWISE = "pairwise", "Compare two runs"

    class State(models.TextChoices):
        FILLING = "filling", "Being filled"
        OPEN = "open", "Open"
        PAUSED = "paused", "Paused"
        CLOSED = "closed", "Closed"

    visible_from = Role.ANNOTATOR

    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.PAIRWISE)
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    overlap = models.PositiveSmallIntegerField(default=1)
    lease_seconds = models.PositiveIntegerField(default=1200)
    selection = models.JSONField(default=dict, help_text="How the items were drawn: filters, pairing, seed.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    item_count = models.PositiveIntegerField(default=0, help_text="Set when the queue is filled.")

    objects = QueueQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(overlap__gte=1), name="overlap_is_positive"),
            CheckConstraint(
                condition=Q(lease_seconds__gte=30),
                name="lease_is_half_a_minute_or_more",
            ),
        ]
        indexes = [Index(fields=["workspace", "-id"], name="queue_newest")]

    def __str__(self) -> str:
        return self.name


class Guideline(models.Model):
    """One version of a queue's instructions. Versions are added, never changed: a judgement knows which one its author saw."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="guidelines")
    version = models.PositiveIntegerField()
    text = models.TextField(help_text="Markdown.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [UniqueConstraint(fields=["queue", "version"], name="one_guideline_per_version")]


class Item(models.Model):
    """A pair of runs of one task, `a` and `b`; which one is shown on the left is drawn for each assignment.

    `taken` counts the assignments that hold a place (being worked on or judged), `judged` those that were judged. They move
    in the same transaction as the assignments, under the item's row lock; the constraint makes a judgement too many
    impossible.
    """

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveIntegerField(help_text="Place in the queue, from 0.")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    a = models.ForeignKey(Trajectory, on_delete=models.PROTECT, related_name="+")
    b = models.ForeignKey(Trajectory, on_delete=models.PROTECT, related_name="+")
    overlap = models.PositiveSmallIntegerField(help_text="The queue's, when the item was made.")
    taken = models.PositiveSmallIntegerField(default=0)
    judged = models.PositiveSmallIntegerField(default=0)

    class Meta:
        constraints = [
            UniqueConstraint(fields=["queue", "position"], name="one_item_per_position"),
            UniqueConstraint(fields=["queue", "a", "b"], name="one_item_per_pair"),
            CheckConstraint(condition=~Q(a=F("b")), name="a_pair_is_two_runs"),
            CheckConstraint(
                condition=Q(taken__lte=F("overlap")),
                name="never_more_places_than_overlap",
            ),
            CheckConstraint(condition=Q(judged__lte=F("taken")), name="judged_items_were_taken"),
        ]
        indexes = [
            Index(
                fields=["queue", "position"],
                condition=Q(taken__lt=F("overlap")),
                name="item_with_a_free_place",
            ),
            Index(fields=["a"], name="item_by_a"),
            Index(fields=["b"], name="item_by_b"),
        ]


class AssignmentQuerySet(models.QuerySet["Assignment"]):
    def open(self) -> Self:
        """Being worked on and not expired."""
        return self.filter(state=Assignment.State.OPEN, leased_until__gt=now())

    def open_to(self, member: Membership) -> Self:
        """The open assignments of this very person, in this workspace."""
        return self.open().filter(annotator__membership=member, item__queue__workspace=member.workspace_id)


class Assignment(WorkspaceModel):
    """An annotator's hold on an item: open until judged, skipped, or expired."""

    class State(models.TextChoices):
        OPEN = "open", "Open"
        JUDGED = "judged", "Judged"
        SKIPPED = "skipped", "Skipped"
        EXPIRED = "expired", "Expired"
        UNDONE = "undone", "Taken back"

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="assignments")
    annotator = models.ForeignKey(Annotator, on_delete=models.PROTECT, related_name="assignments")
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    a_is_left = models.BooleanField(help_text="Drawn by chance, so that a habit of one side cannot favour a run.")
    leased_until = models.DateTimeField()
    opened_at = models.DateTimeField(null=True, help_text="First shown; a preloaded item is assigned before that.")
    closed_at = models.DateTimeField(null=True)
    draft = models.JSONField(default=dict, help_text="Answers not yet submitted.")
    skip_reason = models.CharField(max_length=300, blank=True)
    flagged = models.BooleanField(default=False)

    objects = AssignmentQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["item", "annotator"],
                condition=Q(state__in=["open", "judged"]),
                name="one_place_per_annotator",
            ),
        ]
        indexes = [
            Index(fields=["annotator", "-id"], name="assignment_of_annotator"),
            Index(
                fields=["leased_until"],
                condition=Q(state="open"),
                name="assignment_leases",
            ),
        ]


class PreferenceQuerySet(WorkspaceQuerySet["Preference"]):
    def standing(self) -> Self:
        """Those that nobody took back."""
        return self.filter(retracted_at=None)


class Preference(WorkspaceModel):
    """A graded choice between the two runs of an item. Never changed; taking it back sets `retracted_at`, and a new one may follow."""

    visible_from = Role.REVIEWER

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
        ]
