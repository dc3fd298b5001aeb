"""Tasks, the trajectories of agents that attempted them, and where those came from."""

from __future__ import annotations

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint
from django.utils.timezone import now

from apps.accounts.models import Role, User, WorkspaceModel, WorkspaceQuerySet
from apps.common.fields import FaithfulJSONField
from apps.policies.models import Policy
from apps.trajectories.searching import TASK_WORDS


class Task(WorkspaceModel):
    """Something an agent is asked to do. Trajectories of the same task can be compared."""

    visible_from = Role.REVIEWER

    key = models.CharField(max_length=300)
    environment = models.CharField(max_length=100, blank=True)
    instruction = models.TextField(
        blank=True,
        help_text="What a person reads; NUL and lone surrogates made visible.",
    )
    initial_state = FaithfulJSONField(default=dict)
    success_check = FaithfulJSONField(default=dict)
    category = models.CharField(max_length=100, blank=True)
    difficulty = models.CharField(max_length=50, blank=True)
    held_out = models.BooleanField(default=False, help_text="Kept for evaluation; never in a training split.")

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["workspace", "environment", "key"], name="one_task_per_key")]
        indexes = [Index(fields=["workspace", "-id"], name="task_newest"), GinIndex(TASK_WORDS, name="task_words")]

    def __str__(self) -> str:
        return self.key


class JobState(models.TextChoices):
    """The life of a piece of background work."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class ImportBatchQuerySet(WorkspaceQuerySet["ImportBatch"]):
    def held(self, attempt: int) -> Self:
        """Those that the worker of this attempt still owns: the fence in front of everything that a worker writes."""
        return self.filter(attempt=attempt, state=JobState.RUNNING)

    def active(self) -> Self:
        return self.filter(state__in=[JobState.WAITING, JobState.RUNNING])

    def orphaned(self) -> Self:
        """Taken by a worker that stopped renewing its lease."""
        return self.filter(state=JobState.RUNNING, leased_until__lt=now())

    def overlooked(self) -> Self:
        """Waiting for so long that the message to the workers may be lost."""
        return self.filter(state=JobState.WAITING, leased_until__lt=now())


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


class RolloutBatchQuerySet(WorkspaceQuerySet["RolloutBatch"]):
    def held(self, attempt: int) -> Self:
        """Those that the worker of this attempt still owns: the fence in front of everything that a worker writes."""
        return self.filter(attempt=attempt, state=JobState.RUNNING)

    def orphaned(self) -> Self:
        """Taken by a worker that stopped renewing its lease."""
        return self.filter(state=JobState.RUNNING, leased_until__lt=now())

    def overlooked(self) -> Self:
        """Waiting for so long that the message to the workers may be lost."""
        return self.filter(state=JobState.WAITING, leased_until__lt=now())


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
        default=0, help_text="Workers that vanished since somebody last started it."
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


class TrajectoryQuerySet(WorkspaceQuerySet["Trajectory"]):
    def for_list(self) -> Self:
        """What a row of a list shows, without the heavy columns."""
        return self.select_related("task", "policy").defer("tools", "closing", "info")


class Trajectory(WorkspaceModel):
    """One attempt at a task: an ordered list of steps and how it ended."""

    visible_from = Role.REVIEWER

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="trajectories")
    policy = models.ForeignKey(Policy, on_delete=models.SET_NULL, null=True, related_name="trajectories")
    source = models.CharField(max_length=50, help_text="The import format, or `rollout`.")
    external_id = models.CharField(max_length=300, blank=True)
    import_batch = models.ForeignKey(ImportBatch, on_delete=models.SET_NULL, null=True, related_name="trajectories")
    rollout_batch = models.ForeignKey(RolloutBatch, on_delete=models.SET_NULL, null=True, related_name="trajectories")
    parent = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="branches")
    branch_step = models.PositiveIntegerField(null=True, help_text="The first step that differs from the parent.")
    reward = models.FloatField(null=True)
    success = models.BooleanField(null=True)
    termination = models.CharField(max_length=100, blank=True)
    step_count = models.PositiveIntegerField()
    error_count = models.PositiveIntegerField(default=0)
    token_count = models.BigIntegerField(null=True, help_text="Tokens that the policy generated.")
    seconds = models.FloatField(null=True)
    tags = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    tools = FaithfulJSONField(
        default=list,
        help_text="OpenAI-style function schemas that the policy was given.",
    )
    closing = FaithfulJSONField(default=list, help_text="Messages after the last step.")
    info = FaithfulJSONField(default=dict)
    content_hash = models.BinaryField(max_length=32)

    objects = TrajectoryQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["workspace", "content_hash"], name="one_trajectory_per_content"),
            CheckConstraint(
                condition=Q(parent=None) | Q(branch_step__isnull=False),
                name="branch_has_a_step",
            ),
            CheckConstraint(condition=~Q(parent=F("id")), name="not_its_own_parent"),
        ]
        indexes = [
            Index(fields=["workspace", "-id"], name="trajectory_newest"),
            Index(fields=["task", "-id"], name="trajectory_by_task"),
            # The list's filters: each finds its newest rows without walking past the others.
            Index(fields=["workspace", "policy", "-id"], name="trajectory_by_policy"),
            Index(fields=["workspace", "success", "-id"], name="trajectory_by_outcome"),
            Index(fields=["workspace", "source", "-id"], name="trajectory_by_source"),
            Index(fields=["workspace", "-id"], condition=Q(error_count__gt=0), name="trajectory_with_errors"),
            Index(fields=["workspace", "step_count"], name="trajectory_by_length"),
            Index(fields=["workspace", "external_id"], condition=~Q(external_id=""), name="trajectory_by_external_id"),
            GinIndex(fields=["tags"], name="trajectory_tags"),
        ]


class Original(models.Model):
    """The record as it was given, byte for byte where its format allows, zstd-compressed."""

    trajectory = models.OneToOneField(Trajectory, on_delete=models.CASCADE, primary_key=True, related_name="original")
    body = models.BinaryField()


class StepKind(models.TextChoices):
    """What a step mostly is, for the minimap and the filters."""

    TOOL = "tool", "Tool call"
    MESSAGE = "message", "Message"
    REASONING = "reasoning", "Reasoning"
    FINAL = "final", "Final answer"


class StepQuerySet(models.QuerySet["Step"]):
    def outline(self) -> Self:
        """Steps without what was said: the light columns only, so that a long run's outline reads no big values."""
        return self.defer("context", "message", "info").order_by("index")


class Step(models.Model):
    """One agent turn: the messages that arrived before it (never trained on) and the one the policy produced (trained on).

    The primary key is (trajectory, index): there is no other way to reach a step, and a second index would slow imports.
    """

    pk = models.CompositePrimaryKey("trajectory_id", "index")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="steps", db_index=False)
    index = models.PositiveIntegerField(help_text="From 0.")
    kind = models.CharField(max_length=10, choices=StepKind.choices)
    tool = models.CharField(
        max_length=100,
        blank=True,
        help_text="Names of the tools called, joined by commas.",
    )
    action = models.BinaryField(max_length=16, help_text="Digest of what it did: equal for steps that did the same.")
    headline = models.CharField(
        max_length=200,
        blank=True,
        help_text="The telling argument, or the first line said.",
    )
    result = models.CharField(max_length=200, blank=True, help_text="What came back, in a line.")
    is_error = models.BooleanField(default=False, help_text="The call failed, or its result says so.")
    reward = models.FloatField(null=True)
    done = models.BooleanField(default=False)
    seconds = models.FloatField(null=True)
    prompt_tokens = models.IntegerField(null=True)
    completion_tokens = models.IntegerField(null=True)
    context_chars = models.IntegerField(default=0, help_text="Characters in `context`.")
    result_chars = models.IntegerField(default=0, help_text="Characters that came back after this step.")
    context = FaithfulJSONField(help_text="Chat messages since the step before: system, user, tool results.")
    message = FaithfulJSONField(help_text="The assistant message: content, reasoning_content, tool_calls.")
    info = FaithfulJSONField(default=dict)

    objects = StepQuerySet.as_manager()


class SavedView(WorkspaceModel):
    """Filters of the list of trajectories under a name, for everyone in the workspace who may see the list."""

    visible_from = Role.REVIEWER

    name = models.CharField(max_length=60)
    query = models.CharField(max_length=2000, help_text="The query string, as `Filters.query` writes it.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["workspace", "name"], name="one_view_per_name"),
            UniqueConstraint(fields=["workspace", "query"], name="one_view_per_query"),
        ]

    def __str__(self) -> str:
        return self.name
