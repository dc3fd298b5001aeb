"""Where trajectories come from: files on their way in, and policies at their tasks. A worker does either."""

from __future__ import annotations

from typing import Self, TypeVar

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint
from django.utils.timezone import now

from apps.accounts.models import User, WorkspaceModel, WorkspaceQuerySet
from apps.policies.models import Policy

J = TypeVar("J", bound=WorkspaceModel)


class JobState(models.TextChoices):
    """The life of a piece of background work."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class JobQuerySet(WorkspaceQuerySet[J]):
    """Of models with `state`, `attempt` and `leased_until`: work that one worker at a time owns."""

    def held(self, attempt: int) -> Self:
        """Those that the worker of this attempt still owns: the fence in front of everything that a worker writes."""
        return self.filter(attempt=attempt, state=JobState.RUNNING)

    def orphaned(self) -> Self:
        """Taken by a worker that stopped renewing its lease."""
        return self.filter(state=JobState.RUNNING, leased_until__lt=now())

    def overlooked(self) -> Self:
        """Waiting for so long that the message to the workers may be lost."""
        return self.filter(state=JobState.WAITING, leased_until__lt=now())


class ImportBatchQuerySet(JobQuerySet["ImportBatch"]):
    def active(self) -> Self:
        return self.filter(state__in=[JobState.WAITING, JobState.RUNNING])


class ImportBatch(WorkspaceModel):
    """One uploaded file on its way in. `position` moves in the same transaction as the rows, so a killed import resumes."""

    filename = models.CharField(max_length=300)
    file = models.FileField(upload_to="imports/%Y/%m/", max_length=400)
    size = models.BigIntegerField(default=0, help_text="Bytes as uploaded.")
    sha256 = models.CharField(max_length=64, blank=True)
    format = models.CharField(max_length=50, blank=True)
    policy_name = models.CharField(
        max_length=200,
        blank=True,
        help_text="Who acted in the runs that do not say so themselves.",
    )
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.WAITING)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    position = models.BigIntegerField(default=0, help_text="Records (good or bad) of the file that are dealt with.")
    bytes_read = models.BigIntegerField(default=0)
    trajectory_count = models.IntegerField(default=0)
    step_count = models.BigIntegerField(default=0)
    duplicate_count = models.IntegerField(default=0)
    rejected_count = models.IntegerField(default=0)
    outcome_count = models.IntegerField(default=0, help_text="Runs that were here before and got an outcome by it.")
    task_count = models.IntegerField(null=True, help_text="Tasks of its trajectories, once it is done.")
    warning_count = models.IntegerField(default=0, help_text="What was left out of records that came in.")
    warnings = models.JSONField(default=list, help_text="The first of them, in words with their places.")
    error = models.TextField(blank=True)
    idempotency_key = models.CharField(
        max_length=200, blank=True, help_text="The header of the API request that made it."
    )
    attempt = models.PositiveIntegerField(default=0, help_text="How often a worker has taken it.")
    worker = models.CharField(max_length=200, blank=True, help_text="host/process of the one that has it.")
    losses = models.PositiveSmallIntegerField(default=0, help_text="Workers that vanished since `position` last moved.")
    leased_until = models.DateTimeField(null=True, help_text="While waiting: when to tell the workers again.")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = ImportBatchQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(state__in=JobState.values), name="import_state_is_known"),
            UniqueConstraint(
                fields=["workspace", "idempotency_key"],
                condition=~Q(idempotency_key=""),
                name="one_import_per_idempotency_key",
            ),
        ]
        indexes = [
            Index(fields=["workspace", "-id"], name="import_newest"),
            Index(fields=["workspace", "sha256"], name="import_by_hash"),
            Index(
                fields=["leased_until"],
                condition=Q(state__in=["waiting", "running"]),
                name="import_leases",
            ),
        ]

    @property
    def is_active(self) -> bool:
        return self.state in (JobState.WAITING, JobState.RUNNING)


class RejectedRow(models.Model):
    """A record that could not be read: where, why, and what was expected instead."""

    batch = models.ForeignKey(ImportBatch, on_delete=models.CASCADE, related_name="rejected_rows")
    position = models.BigIntegerField(help_text="Its place among the file's records, from 0.")
    line = models.BigIntegerField(help_text="Line (or record number in a JSON list), from 1.")
    reason = models.TextField()
    expected = models.TextField()
    excerpt = models.TextField(blank=True)

    class Meta:
        constraints = [UniqueConstraint(fields=["batch", "position"], name="one_rejection_per_record")]


class RolloutBatchQuerySet(JobQuerySet["RolloutBatch"]):
    """A name for what is held, orphaned or overlooked."""


class RolloutBatch(WorkspaceModel):
    """A policy attempting tasks of a built-in environment; its trajectories arrive like imported ones."""

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="rollouts")
    environment = models.CharField(max_length=100)
    config = models.JSONField(default=dict, help_text="Task selection, samples a task, sampling and budgets.")
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.WAITING)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    total = models.IntegerField(default=0)
    finished = models.IntegerField(default=0)
    succeeded = models.IntegerField(default=0)
    position = models.BigIntegerField(default=0, help_text="Bytes of the trainer's output that are stored.")
    error = models.TextField(blank=True)
    failure = models.JSONField(default=dict, help_text="Category, message, advice, last log lines, command.")
    attempt = models.PositiveIntegerField(default=0, help_text="How often a worker has taken it.")
    worker = models.CharField(max_length=200, blank=True)
    process_id = models.PositiveIntegerField(null=True, help_text="The child's, on `worker`.")
    losses = models.PositiveSmallIntegerField(
        default=0, help_text="Workers that vanished since it was started, or last got on."
    )
    leased_until = models.DateTimeField(null=True, help_text="While waiting: when to tell the workers again.")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = RolloutBatchQuerySet.as_manager()

    class Meta:
        constraints = [CheckConstraint(condition=Q(state__in=JobState.values), name="rollout_state_is_known")]
        indexes = [
            Index(fields=["workspace", "-id"], name="rollout_newest"),
            Index(
                fields=["leased_until"],
                condition=Q(state__in=["waiting", "running"]),
                name="rollout_leases",
            ),
        ]

    @property
    def is_active(self) -> bool:
        return self.state in (JobState.WAITING, JobState.RUNNING)
