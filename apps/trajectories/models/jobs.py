"""Jobs that produce trajectories: imports of files, and rollouts of policies. A worker runs either."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from apps.accounts.models import User
from apps.jobs.models import Headway, Job, JobQuerySet, JobState
from apps.policies.models import Policy


class ImportBatchQuerySet(JobQuerySet["ImportBatch"]):
    """Typed queryset of import batches."""


class ImportBatch(Job):
    """One uploaded file being imported. `position` is updated in the same transaction as the rows, so a killed import resumes."""

    filename = models.CharField(max_length=300)
    file = models.FileField(upload_to="imports/%Y/%m/", max_length=400)
    size = models.BigIntegerField(default=0, help_text="Size of the uploaded file in bytes.")
    sha256 = models.CharField(max_length=64, blank=True)
    format = models.CharField(max_length=50, blank=True)
    policy_name = models.CharField(
        max_length=200,
        blank=True,
        help_text="Policy of trajectories that don't name one.",
    )
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.WAITING)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    position = models.BigIntegerField(default=0, help_text="Records of the file processed so far, valid or not.")
    bytes_read = models.BigIntegerField(default=0)
    trajectory_count = models.IntegerField(default=0)
    step_count = models.BigIntegerField(default=0)
    duplicate_count = models.IntegerField(default=0)
    rejected_count = models.IntegerField(default=0)
    outcome_count = models.IntegerField(
        default=0, help_text="Existing trajectories that got an outcome from this import."
    )
    task_count = models.IntegerField(
        null=True, help_text="Number of tasks of its trajectories, once the import is done."
    )
    warning_count = models.IntegerField(default=0, help_text="Number of warnings: parts left out of imported records.")
    warnings = models.JSONField(default=list, help_text="The first warnings, as text with their positions.")
    idempotency_key = models.CharField(
        max_length=200, blank=True, help_text="The `Idempotency-Key` of the API request that started the import."
    )

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
            Index(fields=["workspace", "filename", "id"], name="import_by_file"),
            Index(fields=["workspace", "trajectory_count", "id"], name="import_by_size"),
            Index(fields=["workspace", "sha256"], name="import_by_hash"),
            Index(
                fields=["leased_until"],
                condition=Q(state__in=["waiting", "running"]),
                name="import_leases",
            ),
        ]

    @property
    def headway(self) -> Headway:
        return Headway(self.bytes_read, self.size, "bytes")

    @property
    def resumes_from(self) -> str:
        return f"record {self.position + 1:,}"

    @property
    def advice_when_lost(self) -> str:
        return (
            f"Record {self.position + 1:,} or one soon after it may need more memory than a worker has. What came before is in; "
            "remove the record, or give the worker more memory and retry."
        )


class RejectedRow(models.Model):
    """A record that couldn't be read: where, why, and what was expected instead."""

    batch = models.ForeignKey(ImportBatch, on_delete=models.CASCADE, related_name="rejected_rows")
    position = models.BigIntegerField(help_text="0-based index of the record in the file.")
    line = models.BigIntegerField(help_text="1-based line number, or record number in a JSON list.")
    reason = models.TextField()
    expected = models.TextField()
    excerpt = models.TextField(blank=True)

    class Meta:
        constraints = [UniqueConstraint(fields=["batch", "position"], name="one_rejection_per_record")]


class RolloutBatchQuerySet(JobQuerySet["RolloutBatch"]):
    """Typed queryset of rollout batches."""


class RolloutBatch(Job):
    """A policy attempting tasks of an environment; its trajectories are stored like imported ones.

    A worker plays them, or runners outside this server do: then the batch runs without a lease.
    """

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="rollouts")
    environment = models.CharField(max_length=100)
    config = models.JSONField(default=dict, help_text="Task selection, samples per task, sampling, and budgets.")
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.WAITING)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    total = models.IntegerField(default=0)
    finished = models.IntegerField(default=0)
    succeeded = models.IntegerField(default=0)
    position = models.BigIntegerField(default=0, help_text="Bytes of the trainer's output stored so far.")

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
    def is_of_runners(self) -> bool:
        """Whether its episodes are played by runners outside this server."""
        return bool(self.config.get("played_by") == "runners")

    @property
    def headway(self) -> Headway:
        return Headway(self.finished, self.total, "episodes")

    @property
    def resumes_from(self) -> str:
        return f"episode {self.finished + 1}"

    @property
    def advice_when_lost(self) -> str:
        return "See why the workers die (their log, the machine's memory), then resume; finished episodes are kept."
