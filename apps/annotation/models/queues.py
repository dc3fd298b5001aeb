"""Annotators, queues of items, and quality reports."""

from __future__ import annotations

import hashlib
from typing import Self

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint
from django.db.models.functions import Now

from apps.accounts.models import Membership, Role, User, WorkspaceModel, WorkspaceQuerySet
from apps.policies.models import Policy

MAX_OVERLAP = 50
"""Maximum overlap of a queue."""


class Annotator(WorkspaceModel):
    """Whoever judges here or elsewhere: a person, a model (LLM judge, reward model), a rule, or an agent's users. Always labeled with its kind."""

    class Kind(models.TextChoices):
        PERSON = "person", "Person"
        MODEL = "model", "Model"
        RULE = "rule", "Rule"
        USER = "user", "User"

    MACHINES = (Kind.MODEL, Kind.RULE)
    visible_from = Role.REVIEWER

    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=200)
    source = models.CharField(
        max_length=300, blank=True, help_text="File that their judgments were imported from; empty: they judge here."
    )
    # The user, not the membership: somebody who leaves and returns is the same annotator.
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, null=True, related_name="+")

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["workspace", "kind", "name"],
                condition=~Q(kind="person") & Q(source=""),
                name="one_machine_annotator_per_name",
            ),
            UniqueConstraint(
                fields=["workspace", "source", "name", "kind"],
                condition=~Q(source=""),
                name="one_imported_annotator_per_name",
            ),
            CheckConstraint(condition=Q(source="") | Q(user=None), name="imported_annotators_are_no_users"),
            UniqueConstraint(fields=["workspace", "user"], name="one_annotator_per_person"),
            CheckConstraint(condition=Q(kind="person") | Q(user=None), name="only_people_are_users"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        """The name used outside the workspace: `person:` and a stable pseudonym, or `model:`/`rule:` and its name."""
        if self.kind == Annotator.Kind.PERSON:
            # Ids have enough entropy (74 bits) that pseudonyms can't be reversed by brute force.
            return f"person:{hashlib.sha256(self.pk.bytes).hexdigest()[:8]}"
        return f"{self.kind}:{self.name}"


class QueueQuerySet(WorkspaceQuerySet["Queue"]):
    def visible_to(self, member: Membership, *, at_least: Role | None = None) -> Self:
        """Annotators see only the queues that are for everybody, or for them."""
        queues = super().visible_to(member, at_least=at_least)
        if member.is_reviewer:
            return queues
        labeled_queues = Queue.labelers.through.objects.filter(user=member.user_id).values("queue")
        return queues.filter(Q(is_restricted=False) | Q(pk__in=labeled_queues))

    def open(self) -> Self:
        return self.filter(state=Queue.State.OPEN)

    def for_desk(self) -> Self:
        """Queues relevant to annotators: filled, whatever their state."""
        return self.exclude(state__in=[Queue.State.FILLING, Queue.State.FAILED])


class Queue(WorkspaceModel):
    """Items of one kind with one set of guidelines, each to be judged by `overlap` different annotators."""

    class Kind(models.TextChoices):
        PAIRWISE = "pairwise", "Compare two trajectories"
        STEPS = "steps", "Label the steps of a trajectory"
        RATING = "rating", "Rate a trajectory"

    class State(models.TextChoices):
        FILLING = "filling", "Being filled"
        FAILED = "failed", "Could not be filled"
        OPEN = "open", "Open"
        PAUSED = "paused", "Paused"
        CLOSED = "closed", "Closed"

    class Order(models.TextChoices):
        FIFO = "fifo", "Task by task"
        RANDOM = "random", "Shuffled"
        UNCERTAIN = "uncertain", "Most uncertain first"
        INFORMATIVE = "informative", "Most informative first"

    visible_from = Role.ANNOTATOR

    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.PAIRWISE)
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    order = models.CharField(max_length=12, choices=Order.choices, default=Order.FIFO)
    overlap = models.PositiveSmallIntegerField(default=1)
    lease_seconds = models.PositiveIntegerField(default=1200)
    skipped_come_back = models.BooleanField(
        default=False, help_text="Whether a skipped item may be offered again to whoever skipped it."
    )
    selection = models.JSONField(default=dict, help_text="How the items were selected: filters, pairing, seed.")
    asks = models.JSONField(
        default=dict, help_text="The questions that a judgment answers, in the format of the queue's kind."
    )
    is_restricted = models.BooleanField(default=False, help_text="Only `labelers` are given items of this queue.")
    labelers = models.ManyToManyField(User, related_name="+", blank=True)
    gold_percent = models.PositiveSmallIntegerField(
        default=0, help_text="Percentage of gold items among those given to a person."
    )
    gold_count = models.PositiveIntegerField(default=0)
    training_count = models.PositiveIntegerField(default=0)
    shows_machines = models.BooleanField(
        default=False, help_text="Whether people see models' judgments of a pair before they answer."
    )
    blind_review = models.BooleanField(default=True, help_text="Reviewers decide before they see others' judgments.")
    layout = models.JSONField(
        default=dict, help_text="Default desk layout, for everybody without a layout of their own."
    )
    ends_at = models.DateTimeField(null=True)
    ends_after = models.PositiveIntegerField(null=True, help_text="The queue ends after this many judgments.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    item_count = models.PositiveIntegerField(
        default=0,
        help_text="Items to be judged, except gold and onboarding items. Grows while the queue is being filled.",
    )
    items_expected = models.PositiveIntegerField(default=0, help_text="Counted before filling, to show progress.")
    filled_to = models.UUIDField(
        null=True, help_text="The last task whose pairs were added; an interrupted fill continues after it."
    )
    filling_at = models.DateTimeField(null=True, help_text="When filling last made progress.")
    error = models.TextField(blank=True)

    objects = QueueQuerySet.as_manager()

    class Meta:
        constraints = [
            # Target of the items' foreign key, which makes a queue's items be of its kind.
            UniqueConstraint(fields=["id", "kind"], name="queue_has_one_kind"),
            CheckConstraint(condition=Q(overlap__gte=1), name="overlap_is_positive"),
            CheckConstraint(condition=Q(gold_percent__lte=90), name="most_items_may_be_gold_not_all"),
            CheckConstraint(
                condition=Q(lease_seconds__gte=30),
                name="lease_is_half_a_minute_or_more",
            ),
        ]
        indexes = [
            Index(fields=["workspace", "-id"], name="queue_newest"),
            Index(fields=["workspace", "name", "id"], name="queue_by_name"),
            Index(fields=["filling_at"], condition=Q(state="filling"), name="queue_being_filled"),
            Index(
                fields=["state"],
                condition=Q(state="open") & (Q(ends_at__isnull=False) | Q(ends_after__isnull=False)),
                name="queue_with_an_end",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_of_experiment(self) -> bool:
        """Whether its pairs and overlap were fixed by the plan of an experiment."""
        return "experiment" in self.selection

    @property
    def slots(self) -> int:
        """The number of judgments that the queue asks for."""
        return self.item_count * self.overlap


class Guideline(models.Model):
    """One version of a queue's guidelines. Versions are added, never changed; each judgment refers to the one its author saw."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="guidelines")
    version = models.PositiveIntegerField()
    text = models.TextField(help_text="Markdown.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [UniqueConstraint(fields=["queue", "version"], name="one_guideline_per_version")]


class QualityReport(models.Model):
    """The latest measurement of a queue's judgments, and what it's based on."""

    queue = models.OneToOneField(Queue, on_delete=models.CASCADE, primary_key=True, related_name="report")
    basis = models.CharField(
        max_length=100,
        help_text="Identifies the judgments measured; if it no longer matches, the report is out of date.",
    )
    figures = models.JSONField(help_text="Returned by `measuring.measure`.")
    measured_at = models.DateTimeField(db_default=Now())
    took_seconds = models.FloatField()
