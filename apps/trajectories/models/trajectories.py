"""Trajectories, their tasks, steps, and originals, and saved filters of their list."""

from __future__ import annotations

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint

from apps.accounts.models import Role, User, WorkspaceModel, WorkspaceQuerySet
from apps.common.fields import FaithfulJSONField
from apps.policies.models import Policy
from apps.trajectories.models.jobs import ImportBatch, RolloutBatch
from apps.trajectories.search import TASK_WORDS
from contract.trajectory import FOR_SIMULATED_USER


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

    @property
    def users_script(self) -> str:
        """The script of a simulated user, which only it was given; empty if the instruction is the agent's."""
        return (
            self.instruction.removeprefix(FOR_SIMULATED_USER) if self.instruction.startswith(FOR_SIMULATED_USER) else ""
        )

    @property
    def headline(self) -> str:
        """The agent's instruction, if it's recorded. A simulated user's script isn't one."""
        return "A conversation with a simulated user" if self.users_script else self.instruction


class TrajectoryQuerySet(WorkspaceQuerySet["Trajectory"]):
    def for_list(self) -> Self:
        """The columns of a list row, without the heavy ones."""
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
    outcome_batch = models.ForeignKey(
        ImportBatch,
        on_delete=models.SET_NULL,
        null=True,
        related_name="outcomes",
        db_index=False,
        help_text="The import whose report said later whether it was a success.",
    )
    termination = models.CharField(max_length=100, blank=True)
    step_count = models.PositiveIntegerField()
    error_count = models.PositiveIntegerField(default=0)
    token_count = models.BigIntegerField(null=True, help_text="Tokens that the policy generated.")
    seconds = models.FloatField(null=True)
    tags = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    called = ArrayField(
        models.CharField(max_length=100),
        default=list,
        db_default=[],
        blank=True,
        help_text="Names of the tools that its steps called.",
    )
    tools = FaithfulJSONField(
        default=list,
        help_text="OpenAI-style function schemas that the policy was given.",
    )
    closing = FaithfulJSONField(default=list, help_text="Messages after the last step.")
    info = FaithfulJSONField(default=dict)
    content_hash = models.BinaryField(max_length=32)
    course = models.BigIntegerField(
        null=True,
        help_text="Digest of what was heard, done and said: equal for trajectories that can't be told apart. Null: not noted.",
    )

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
            # For the list's filters: each finds its newest rows without scanning past the others.
            Index(fields=["workspace", "policy", "-id"], name="trajectory_by_policy"),
            Index(fields=["workspace", "success", "-id"], name="trajectory_by_outcome"),
            Index(fields=["workspace", "source", "-id"], name="trajectory_by_source"),
            Index(fields=["workspace", "-id"], condition=Q(error_count__gt=0), name="trajectory_with_errors"),
            Index(fields=["workspace", "step_count", "id"], name="trajectory_by_length"),
            Index(fields=["workspace", "external_id"], condition=~Q(external_id=""), name="trajectory_by_external_id"),
            Index(fields=["outcome_batch"], condition=Q(outcome_batch__isnull=False), name="trajectory_by_report"),
            GinIndex(fields=["tags"], name="trajectory_tags"),
            GinIndex(fields=["called"], name="trajectory_called"),
        ]


class Original(models.Model):
    """The record as imported, byte for byte if its format allows, zstd-compressed."""

    trajectory = models.OneToOneField(Trajectory, on_delete=models.CASCADE, primary_key=True, related_name="original")
    body = models.BinaryField()


class StepKind(models.TextChoices):
    """The main kind of a step, for the minimap and the filters."""

    TOOL = "tool", "Tool call"
    MESSAGE = "message", "Message"
    REASONING = "reasoning", "Reasoning"
    FINAL = "final", "Final answer"


class StepQuerySet(models.QuerySet["Step"]):
    def outline(self) -> Self:
        """Only the light columns, so that a long trajectory's outline reads no large values."""
        return self.defer("context", "message", "info").order_by("index")


class Step(models.Model):
    """One agent turn: the messages that arrived before it (never trained on) and the one that the policy produced (trained on).

    The primary key is (trajectory, index): steps are reached in no other way, and a second index would slow imports.
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
    """Named filters of the list of trajectories, for everyone in the workspace who may see the list."""

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
