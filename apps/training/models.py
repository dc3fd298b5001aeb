"""Training runs: what was asked, what is happening, what came of it."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint
from django.db.models.functions import Now
from django.utils.timezone import now

from apps.accounts.models import User, WorkspaceModel, WorkspaceQuerySet
from apps.datasets.models import Version
from apps.policies.models import Policy


class RunQuerySet(WorkspaceQuerySet["Run"]):
    def active(self) -> Self:
        return self.filter(state__in=Run.ACTIVE)

    def orphaned(self) -> Self:
        """Taken by a worker that stopped renewing its lease."""
        return self.filter(
            state__in=[Run.State.STARTING, Run.State.RUNNING, Run.State.CANCELLING],
            leased_until__lt=now(),
        )


class Run(WorkspaceModel):
    """One training job: an algorithm on a dataset version, from a base policy, in a folder of its own."""

    class Algorithm(models.TextChoices):
        SFT = "sft", "Supervised fine-tuning"
        REWARD_MODEL = "reward_model", "Reward model"
        DPO = "dpo", "DPO"

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        STARTING = "starting", "Starting"
        RUNNING = "running", "Running"
        CANCELLING = "cancelling", "Cancelling"
        CANCELLED = "cancelled", "Cancelled"
        FINISHED = "finished", "Finished"
        FAILED = "failed", "Failed"

    ACTIVE = (State.QUEUED, State.STARTING, State.RUNNING, State.CANCELLING)

    name = models.CharField(max_length=200)
    algorithm = models.CharField(max_length=20, choices=Algorithm.choices)
    version = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="runs")
    base = models.ForeignKey(Policy, on_delete=models.PROTECT, null=True, related_name="runs")
    result = models.OneToOneField(Policy, on_delete=models.PROTECT, null=True, related_name="made_by")
    config = models.JSONField(
        default=dict,
        help_text="The algorithm's settings, as the trainer validates them.",
    )
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    state = models.CharField(max_length=12, choices=State.choices, default=State.QUEUED)
    attempt = models.PositiveIntegerField(default=0, help_text="How often a worker has taken it.")
    worker = models.CharField(max_length=200, blank=True)
    process_id = models.PositiveIntegerField(null=True, help_text="The child's, on `worker`.")
    leased_until = models.DateTimeField(null=True)
    step = models.PositiveIntegerField(default=0)
    total_steps = models.PositiveIntegerField(default=0)
    checkpoint_step = models.PositiveIntegerField(null=True)
    failure = models.JSONField(default=dict, help_text="Category, message, advice, last log lines, command.")
    report = models.JSONField(default=dict)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(
                condition=~Q(state="finished") | Q(finished_at__isnull=False),
                name="finished_run_has_its_time",
            ),
        ]
        indexes = [
            Index(fields=["workspace", "-id"], name="run_newest"),
            Index(
                fields=["leased_until"],
                condition=Q(state__in=["starting", "running", "cancelling"]),
                name="run_leases",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_active(self) -> bool:
        return self.state in self.ACTIVE


class Metric(models.Model):
    """What the trainer measured at one step. A resumed run writes the same steps again; the later values hold."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="metrics")
    step = models.PositiveIntegerField()
    values = models.JSONField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [UniqueConstraint(fields=["run", "step"], name="one_metric_row_per_step")]


class RunEvent(models.Model):
    """Something that happened to a run, in words for people."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(db_default=Now())
    kind = models.CharField(max_length=30)
    text = models.TextField()

    class Meta:
        indexes = [Index(fields=["run", "id"], name="event_of_run")]
