"""Blind comparisons between two policies."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint

from apps.accounts.models import User, WorkspaceModel, WorkspaceQuerySet
from apps.annotation.models import Queue
from apps.arena.stopping_rule import StoppingRule
from apps.gateway.splits.models import TrafficSplit
from apps.policies.models import Policy
from apps.trajectories.models import RolloutBatch, Task, Trajectory


class Experiment(WorkspaceModel):
    """Two policies attempt the same held-out tasks; people compare the trajectories without knowing whose they are.

    The stopping rule is fixed when the experiment starts: choosing it after looking at the results would invalidate its guarantee.
    """

    class State(models.TextChoices):
        ROLLING_OUT = "rolling_out", "Rolling out"
        LABELING = "labeling", "Being labeled"
        STOPPED = "stopped", "Decided"
        FAILED = "failed", "Failed"

    name = models.CharField(max_length=200)
    environment = models.CharField(max_length=100)
    policy_a = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="+")
    policy_b = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="+")
    rollouts_a = models.ForeignKey(RolloutBatch, on_delete=models.PROTECT, null=True, related_name="+")
    rollouts_b = models.ForeignKey(RolloutBatch, on_delete=models.PROTECT, null=True, related_name="+")
    recorded_a = ArrayField(
        models.UUIDField(),
        default=list,
        help_text="Existing trajectories of policy A, if the experiment rolls out none.",
    )
    recorded_b = ArrayField(models.UUIDField(), default=list)
    split = models.ForeignKey(
        TrafficSplit,
        on_delete=models.PROTECT,
        null=True,
        related_name="experiments",
        help_text="The split whose sessions feed the experiment as they end.",
    )
    queue = models.OneToOneField(Queue, on_delete=models.PROTECT, null=True, related_name="experiment")
    plan = models.JSONField(default=dict, help_text="tasks, samples, seed, overlap, rule: fixed at the start.")
    state = models.CharField(max_length=12, choices=State.choices, default=State.ROLLING_OUT)
    alike = models.JSONField(
        default=list,
        help_text="Indistinguishable pairs, counted as ties without asking anybody: [task, number of asked pairs before it].",
    )
    verdict = models.JSONField(default=dict, help_text="The figures when the experiment stopped.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    error = models.TextField(blank=True)
    stopped_at = models.DateTimeField(null=True)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(
                condition=~Q(policy_a=F("policy_b")),
                name="an_experiment_needs_two_policies",
            ),
            UniqueConstraint(
                fields=["split"], condition=Q(state="labeling"), name="one_live_experiment_at_a_time_per_split"
            ),
        ]
        indexes = [
            Index(fields=["workspace", "-id"], name="experiment_newest"),
            Index(fields=["workspace", "name", "id"], name="experiment_by_name"),
            Index(fields=["state"], condition=~Q(state="stopped"), name="experiment_undecided"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_recorded(self) -> bool:
        """Whether it compares trajectories that existed before."""
        return bool(self.plan.get("source") == "recorded")

    @property
    def is_live(self) -> bool:
        """Whether it's fed by the sessions of a traffic split as they end."""
        return bool(self.plan.get("source") == "live")

    @property
    def rule(self) -> StoppingRule:
        """The stopping rule fixed when the experiment began."""
        return StoppingRule(**self.plan.get("rule", {}))


class LiveAttempt(models.Model):
    """One side's first attempt at a task in a live experiment. The side is the drawn arm, whichever policy answered."""

    class Side(models.IntegerChoices):
        A = 0
        B = 1

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="live_attempts", db_index=False)
    side = models.PositiveSmallIntegerField(help_text="0: policy A; 1: policy B.")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+", db_index=False)
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="live_attempts")
    is_paired = models.BooleanField(default=False, help_text="The other side has also attempted the task.")

    class Meta:
        constraints = [
            UniqueConstraint(fields=["experiment", "task", "side"], name="one_live_attempt_per_task_and_side")
        ]
