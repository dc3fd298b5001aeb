"""Machine annotators: models that judge pairs."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint
from django.db.models.functions import Now

from apps.accounts.models import Role, User
from apps.annotation.models.items import Item
from apps.annotation.models.queues import Annotator, Queue
from apps.jobs.models import Headway, Job, JobQuerySet, Phase

PER = 1_000_000
"""The number of tokens that prices refer to."""


class JudgeQuerySet(JobQuerySet["Judge"]):
    """Typed queryset of judges."""


class Judge(Job):
    """A model judging one queue: its settings, its cost, and its progress."""

    class Mode(models.TextChoices):
        JOIN = "join", "Judges like a person, in a place of its own"
        PRELABEL = "prelabel", "Says what it thinks beside the people, and takes no place"

    class State(models.TextChoices):
        WAITING = "waiting", "At work"  # waits between time slices
        RUNNING = "running", "At work"
        PAUSING = "pausing", "Paused"  # after the current pair
        PAUSED = "paused", "Paused"
        DONE = "done", "Done"
        FAILED = "failed", "Stopped by errors"

    PHASES = {  # overrides the class variable of Job
        State.WAITING: Phase.WAITING,
        State.RUNNING: Phase.RUNNING,
        State.PAUSING: Phase.STOPPING,
        State.PAUSED: Phase.CANCELLED,
        State.DONE: Phase.DONE,
        State.FAILED: Phase.FAILED,
    }

    visible_from = Role.REVIEWER

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="judges", db_index=False)
    annotator = models.ForeignKey(
        Annotator, on_delete=models.PROTECT, related_name="judges", help_text="Its policy is the served model."
    )
    mode = models.CharField(max_length=10, choices=Mode.choices)
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    requests_a_minute = models.PositiveIntegerField(default=60)
    temperature = models.FloatField(default=0.0)
    prompt_price = models.FloatField(default=0.0, help_text="Per million tokens, in any currency.")
    completion_price = models.FloatField(default=0.0)
    most_cost = models.FloatField(null=True, help_text="The judge pauses when its cost reaches this.")
    answered = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0, help_text="Items without a usable answer.")
    prompt_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    objects = JudgeQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["queue", "annotator"], name="one_judge_per_model_and_queue"),
            CheckConstraint(condition=Q(requests_a_minute__gte=1), name="a_judge_is_asked_now_and_then"),
        ]
        indexes = [
            Index(
                fields=["leased_until"],
                condition=Q(state__in=["waiting", "running", "pausing"]),
                name="judge_leases",
            )
        ]

    @property
    def state_so_far(self) -> str:
        """The state shown to people, which doesn't depend on whether a worker holds it at the moment."""
        shown = {self.State.WAITING: self.State.RUNNING, self.State.PAUSING: self.State.PAUSED}
        return shown.get(self.State(self.state), self.state)

    @property
    def headway(self) -> Headway:
        return Headway(self.answered + self.failed, 0, "pairs")

    @property
    def cost(self) -> float:
        """The cost so far."""
        return (self.prompt_tokens * self.prompt_price + self.completion_tokens * self.completion_price) / PER

    @property
    def has_spent_all(self) -> bool:
        return self.most_cost is not None and self.cost >= self.most_cost


class JudgePrompt(models.Model):
    """One version of a judge's prompt. Versions are added, never changed; each answer refers to the one it was given with."""

    judge = models.ForeignKey(Judge, on_delete=models.CASCADE, related_name="prompts")
    version = models.PositiveIntegerField()
    text = models.TextField()
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [UniqueConstraint(fields=["judge", "version"], name="one_prompt_per_version")]


class JudgeAnswerQuerySet(models.QuerySet["JudgeAnswer"]):
    def usable(self) -> Self:
        return self.filter(error="")


class JudgeAnswer(models.Model):
    """A judge's answer on a pair, asked in both orders. In favor of trajectory a, like a preference's strength."""

    judge = models.ForeignKey(Judge, on_delete=models.CASCADE, related_name="answers", db_index=False)
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="judge_answers")
    prompt_version = models.PositiveIntegerField()
    a_left = models.SmallIntegerField(
        help_text="Grade with trajectory a on the left; a reward model's doesn't depend on sides."
    )
    b_left = models.SmallIntegerField(help_text="Grade with trajectory b on the left.")
    strength = models.SmallIntegerField(help_text="The two grades combined; 0 if they contradict each other.")
    both_bad = models.BooleanField(default=False)
    margin = models.FloatField(
        null=True, help_text="For reward models: reward of trajectory a minus reward of trajectory b, in nats."
    )
    reason = models.TextField(blank=True)
    error = models.TextField(blank=True, help_text="Why there is no usable answer; the grades are then meaningless.")
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    objects = JudgeAnswerQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["judge", "item"], name="one_answer_per_item"),
            CheckConstraint(
                condition=Q(a_left__range=(-3, 3), b_left__range=(-3, 3), strength__range=(-3, 3)),
                name="answers_are_minus3_to_3",
            ),
        ]
