"""Datasets and their frozen versions."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint
from django.db.models.functions import Now

from apps.accounts.models import User, Workspace, WorkspaceModel, WorkspaceQuerySet
from apps.annotation.models import Inspection, Preference, Rating
from apps.jobs.models import Headway, Job, JobQuerySet, Phase
from apps.trajectories.models import Task


class Split(models.TextChoices):
    TRAIN = "train", "Train"
    VALIDATION = "validation", "Validation"
    TEST = "test", "Test"


class TaskSplit(models.Model):
    """The split of a task. Written once and never changed: a model must never be tested on what it was trained on.

    Database triggers refuse later changes, and `train` for a held-out task (see the migrations).
    """

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="split")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    split = models.CharField(max_length=10, choices=Split.choices)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [CheckConstraint(condition=Q(split__in=Split.values), name="split_is_known")]


class Dataset(WorkspaceModel):
    """A named series of versions."""

    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    license = models.CharField(max_length=200, blank=True, help_text="Terms under which the rows may be used.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["workspace", "name"], name="one_dataset_per_name")]
        indexes = [Index(fields=["workspace", "-id"], name="dataset_newest")]

    def __str__(self) -> str:
        return self.name


class VersionQuerySet(JobQuerySet["Version"]):
    def frozen(self) -> Self:
        return self.filter(state=Version.State.FROZEN)


class Version(Job):
    """Judgments frozen into rows. A trigger keeps frozen versions from changing, and `content_hash` proves that they haven't."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        FREEZING = "freezing", "Freezing"
        FROZEN = "frozen", "Frozen"
        FAILED = "failed", "Failed"

    PHASES = {  # overrides the class variable of Job
        State.WAITING: Phase.WAITING,
        State.FREEZING: Phase.RUNNING,
        State.FROZEN: Phase.DONE,
        State.FAILED: Phase.FAILED,
    }

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    row_type = models.CharField(max_length=20, default="preference")
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    recipe = models.JSONField(
        default=dict,
        help_text="Queues, rules for ties and disagreements, split shares, seed.",
    )
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    row_counts = models.JSONField(default=dict, help_text="Number of rows in each split.")
    rows_done = models.PositiveIntegerField(default=0)
    rows_expected = models.PositiveIntegerField(default=0)
    content_hash = models.CharField(
        max_length=64,
        blank=True,
        help_text="SHA-256 of what `sha256sum train.jsonl validation.jsonl test.jsonl` prints.",
    )
    files = models.JSONField(default=dict, help_text="Per format and split: storage name, bytes, sha256.")
    card = models.JSONField(default=dict, help_text="Dataset card: contents, annotators, and their agreement.")
    frozen_at = models.DateTimeField(null=True)

    objects = VersionQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["dataset", "number"], name="one_version_per_number"),
            CheckConstraint(
                condition=~Q(state="frozen") | (Q(frozen_at__isnull=False) & ~Q(content_hash="")),
                name="frozen_version_has_its_hash",
            ),
            CheckConstraint(
                condition=Q(state__in=["waiting", "freezing", "frozen", "failed"]), name="version_state_is_known"
            ),
        ]
        indexes = [
            Index(fields=["workspace", "-id"], name="version_newest"),
            Index(fields=["leased_until"], condition=Q(state__in=["waiting", "freezing"]), name="version_leases"),
        ]

    def __str__(self) -> str:
        return f"{self.dataset} v{self.number}"

    @property
    def state_so_far(self) -> str:
        """The state shown to clients: a version that waits for a worker counts as being frozen."""
        return self.State.FREEZING if self.state == self.State.WAITING else self.state

    @property
    def headway(self) -> Headway:
        return Headway(self.rows_done, self.rows_expected, "rows")

    @property
    def resumes_from(self) -> str:
        return "the beginning"

    @property
    def advice_when_lost(self) -> str:
        return "Look at the workers' logs, then freeze again."


class VersionPreference(models.Model):
    """Which judgment went into which row of which version: the link from a policy back to a person.

    A composite foreign key, (task, split) to TaskSplit, keeps a task from being in two splits, within one version and across
    all of them (see the migration; Django has no field for composite keys).
    """

    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="sources", db_index=False)
    preference = models.ForeignKey(Preference, on_delete=models.PROTECT, related_name="used_in")
    # The composite key already enforces the reference to the task, so the database needn't check it twice.
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+", db_constraint=False)
    split = models.CharField(max_length=10, choices=Split.choices)
    row = models.PositiveIntegerField(help_text="Row number within the split, from 0.")

    class Meta:
        constraints = [UniqueConstraint(fields=["version", "preference"], name="one_use_per_version")]
        indexes = [Index(fields=["version", "split", "row"], name="source_of_row")]


class VersionJudgment(models.Model):
    """Which judgment of a single trajectory, an inspection or a rating, went into which row of which version. One may go into several rows."""

    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="judgments", db_index=False)
    inspection = models.ForeignKey(Inspection, on_delete=models.PROTECT, null=True, related_name="used_in")
    rating = models.ForeignKey(Rating, on_delete=models.PROTECT, null=True, related_name="used_in")
    # The composite key already enforces the reference to the task, so the database needn't check it twice.
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+", db_constraint=False)
    split = models.CharField(max_length=10, choices=Split.choices)
    row = models.PositiveIntegerField(help_text="Row number within the split, from 0.")

    class Meta:
        constraints = [
            CheckConstraint(
                condition=Q(inspection__isnull=False, rating=None) | Q(inspection=None, rating__isnull=False),
                name="one_judgment_of_one_kind",
            ),
            UniqueConstraint(
                fields=["version", "split", "row", "inspection", "rating"],
                nulls_distinct=False,
                name="one_use_per_row",
            ),
        ]
