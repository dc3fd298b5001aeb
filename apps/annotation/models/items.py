"""The items of a queue, and their assignments."""

from __future__ import annotations

from datetime import datetime
from typing import Self, TypeVar

from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint
from django.db.models.functions import Now
from django.utils.timezone import now

from apps.accounts.models import Membership, Role, WorkspaceModel, WorkspaceQuerySet
from apps.annotation.models.queues import Annotator, Queue
from apps.trajectories.models import Task, Trajectory

M = TypeVar("M", bound=models.Model, covariant=True)

FOR_ALL = 32767
"""The overlap of an item that everybody judges: the column's maximum."""


class Item(models.Model):
    """The subject of a judgment: a trajectory `a` or, in a pairwise queue, a pair of trajectories of one task, `a` and `b`.

    Which trajectory of a pair is shown on the left is drawn for each assignment.

    `taken` counts the assignments that hold a slot (being worked on or judged), `judged` those that were judged. They change
    in the same transaction as the assignments, under the item's row lock; a constraint keeps an item from getting more
    judgments than it has slots.
    """

    class Purpose(models.TextChoices):
        WORK = "work", "To be judged"
        GOLD = "gold", "Gold: a hidden check with a known answer"
        ONBOARDING = "training", "Training: a known answer that is shown afterwards"

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="items", db_index=False)
    kind = models.CharField(
        max_length=10,
        choices=Queue.Kind.choices,
        default=Queue.Kind.PAIRWISE,
        help_text="The queue's kind, enforced by a composite foreign key.",
    )
    purpose = models.CharField(max_length=10, choices=Purpose.choices, default=Purpose.WORK, db_default="work")
    known = models.JSONField(
        null=True, help_text="For gold and onboarding items: the answer, in the format of the item's kind."
    )
    position = models.BigIntegerField(help_text="Sort key within the queue; the value itself has no meaning.")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    a = models.ForeignKey(Trajectory, on_delete=models.PROTECT, related_name="+", db_index=False)
    b = models.ForeignKey(Trajectory, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    overlap = models.PositiveSmallIntegerField(
        help_text="The queue's overlap; for gold and onboarding items, the column's maximum, since everybody judges them."
    )
    taken = models.PositiveSmallIntegerField(default=0)
    judged = models.PositiveSmallIntegerField(default=0)
    returned_at = models.DateTimeField(
        null=True, help_text="When a place was last freed: unfinished, skipped, or expired."
    )
    disputed = models.BooleanField(default=False, help_text="One current judgment prefers a, another prefers b.")

    class Meta:
        constraints = [
            UniqueConstraint(fields=["queue", "position"], name="one_item_per_position"),
            UniqueConstraint(fields=["queue", "a", "b"], name="one_item_per_pair"),
            UniqueConstraint(fields=["queue", "a"], condition=Q(b=None), name="one_item_per_run"),
            CheckConstraint(condition=~Q(a=F("b")), name="a_pair_is_two_runs"),
            CheckConstraint(
                condition=Q(kind="pairwise", b__isnull=False) | Q(kind__in=["steps", "rating"], b=None),
                name="only_pairs_have_a_second_run",
            ),
            CheckConstraint(
                condition=Q(taken__lte=F("overlap")),
                name="never_more_places_than_overlap",
            ),
            CheckConstraint(condition=Q(judged__lte=F("taken")), name="judged_items_were_taken"),
            CheckConstraint(
                condition=Q(purpose="work", known=None) | Q(purpose__in=["gold", "training"], known__isnull=False),
                name="checks_have_a_known_answer",
            ),
        ]
        indexes = [
            Index(
                fields=["queue", "position"],
                condition=Q(taken__lt=F("overlap"), purpose="work"),
                name="item_with_a_free_place",
            ),
            Index(
                fields=["queue", "returned_at"],
                condition=Q(taken__lt=F("overlap"), returned_at__isnull=False, purpose="work"),
                name="item_with_a_returned_place",
            ),
            Index(fields=["queue", "purpose", "position"], condition=~Q(purpose="work"), name="item_of_known_answer"),
            Index(fields=["queue", "position"], condition=Q(disputed=True), name="item_disputed"),
            Index(fields=["a"], name="item_by_a"),
            Index(fields=["b"], name="item_by_b"),
        ]

    @property
    def step_count(self) -> int:
        """The steps that its page shows: those of both trajectories."""
        return self.a.step_count + (self.b.step_count if self.b else 0)


class Desk(models.Model):
    """One annotator's state in one queue: their position, and what they've done.

    Everything before `position`, and every slot freed before `returns_seen`, has been offered to them or was full
    at that time, so finding their next item costs the same after 50,000 items as at the start. Its row lock keeps two tabs of one
    person from taking two items at once.
    """

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="desks", db_index=False)
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="desks")
    position = models.BigIntegerField(default=0)
    returns_seen = models.DateTimeField(db_default=Now())
    swept_at = models.DateTimeField(null=True, help_text="When the whole queue was last scanned from its start.")
    judged = models.PositiveIntegerField(
        default=0, help_text="Current judgments, except those of gold and onboarding items."
    )
    offered = models.PositiveIntegerField(
        default=0, help_text="Items requested so far; determines when a gold item is due."
    )
    golds = models.PositiveIntegerField(default=0, help_text="Current judgments of gold items.")
    golds_right = models.PositiveIntegerField(default=0)
    trained = models.PositiveIntegerField(default=0, help_text="Current judgments of onboarding items.")
    trained_right = models.PositiveIntegerField(default=0)
    paused_at = models.DateTimeField(null=True, help_text="Since when this annotator is given no items in this queue.")
    pause_reason = models.CharField(max_length=300, blank=True, help_text="Shown to the annotator.")
    skipped = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(default=0, help_text="Working time spent on the current judgments.")

    class Meta:
        constraints = [UniqueConstraint(fields=["queue", "annotator"], name="one_desk_per_annotator")]

    @property
    def answered(self) -> int:
        """The count shown to the annotator: it includes gold items, so that it doesn't reveal them."""
        return self.judged + self.golds

    @property
    def seconds_each(self) -> float:
        return self.seconds / self.answered if self.answered else 0.0


class AssignmentQuerySet(models.QuerySet["Assignment"]):
    def open(self) -> Self:
        """Assignments in progress that haven't expired."""
        return self.filter(state=Assignment.State.OPEN, leased_until__gt=now())

    def of(self, member: Membership) -> Self:
        """This person's assignments in this workspace. Nobody else sees them, whatever their role."""
        return self.filter(workspace=member.workspace_id, annotator__user=member.user_id)

    def with_trajectories(self, *, has_queue: bool = False) -> Self:
        """Joins the queue (unless the caller has it), task, and trajectories, limited to the columns that the desk shows of every item."""
        field_names = [field.name for field in Assignment._meta.concrete_fields]
        columns = [f"item__{side}__{column}" for side in "ab" for column in ("step_count", "closing", "content_hash")]
        queue = () if has_queue else ("queue",)
        return self.select_related(*queue, "item__task", "item__a", "item__b").only(
            *field_names, *columns, "item__task__instruction", "item__task__environment"
        )

    def open_to(self, member: Membership) -> Self:
        """This person's open assignments in this workspace."""
        return self.open().of(member)


class Assignment(WorkspaceModel):
    """An annotator's hold on an item: open until judged, skipped, or expired; an expired one may be reopened."""

    class State(models.TextChoices):
        OPEN = "open", "Open"
        JUDGED = "judged", "Judged"
        SKIPPED = "skipped", "Skipped"
        EXPIRED = "expired", "Expired"
        UNDONE = "undone", "Taken back"

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="assignments", db_index=False)
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="assignments")
    annotator = models.ForeignKey(Annotator, on_delete=models.PROTECT, related_name="assignments")
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    a_is_left = models.BooleanField(
        help_text="Drawn at random, so that a preference for one side can't favor a trajectory."
    )
    replaces = models.OneToOneField(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        related_name="replaced_by",
        help_text="The undone assignment that this one replaces.",
    )
    leased_until = models.DateTimeField()
    opened_at = models.DateTimeField(
        null=True, help_text="When it was first shown; a preloaded item is assigned earlier."
    )
    closed_at = models.DateTimeField(null=True)
    draft = models.JSONField(default=dict, help_text="Answers not yet submitted.")
    skip_reason = models.CharField(max_length=300, blank=True)
    flagged = models.BooleanField(default=False)
    flag_reason = models.CharField(max_length=300, blank=True)

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
            Index(fields=["queue", "annotator"], condition=Q(state="open"), name="assignment_in_hand"),
            Index(fields=["queue", "annotator"], condition=Q(state="expired"), name="assignment_expired"),
            Index(fields=["queue", "annotator", "-closed_at"], name="assignment_latest"),
            Index(
                fields=["leased_until"],
                condition=Q(state="open"),
                name="assignment_leases",
            ),
        ]

    @classmethod
    def already_judged(cls, queue: Queue, item: Item, annotator: Annotator, at: datetime) -> Self:
        """The assignment, not saved, of a judgment that wasn't made at the desk."""
        return cls(
            workspace_id=queue.workspace_id,
            queue=queue,
            item=item,
            annotator=annotator,
            state=cls.State.JUDGED,
            a_is_left=True,
            leased_until=at,
            closed_at=at,
        )


def open_items_of(member: Membership) -> models.QuerySet[Assignment, int]:
    """The items assigned to this member that they haven't answered."""
    assignments = Assignment.objects.filter(annotator__user=member.user_id, state=Assignment.State.OPEN)
    return assignments.values_list("item", flat=True)


class OpinionQuerySet(WorkspaceQuerySet[M]):
    """Opinions on items: judgments, and reviewers' decisions."""

    def visible_to(self, member: Membership, *, at_least: Role | None = None) -> Self:
        """Leaves out items on this member's own desk: annotators answer before they see others' judgments."""
        return super().visible_to(member, at_least=at_least).exclude(item__in=open_items_of(member))
