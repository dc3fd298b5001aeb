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

    def held(self, attempt: int) -> Self:
        """Those that the worker of this attempt still owns: the fence in front of everything that a worker writes."""
        return self.filter(attempt=attempt, state__in=Run.HELD)

    def orphaned(self) -> Self:
        """Taken by a worker that stopped renewing its lease."""
        return self.filter(state__in=Run.HELD, leased_until__lt=now())

    def overlooked(self) -> Self:
        """Queued for so long that the message to the workers may be lost; telling them again does no harm."""
        return self.filter(state=Run.State.QUEUED, leased_until__lt=now())


class Run(WorkspaceModel):
    """One training job: an algorithm on a dataset version, from a base policy, in a folder of its own."""

    class Algorithm(models.TextChoices):
        SFT = "sft", "Supervised fine-tuning"
        REWARD_MODEL = "reward_model", "Reward model"
        DPO = "dpo", "DPO"
        KTO = "kto", "KTO"
        PROCESS_REWARD_MODEL = "process_reward_model", "Process reward model"
        GRPO = "grpo", "GRPO"
        RLOO = "rloo", "RLOO"
        STAR = "star", "Rejection sampling (STaR)"

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        STARTING = "starting", "Starting"
        RUNNING = "running", "Running"
        CANCELLING = "cancelling", "Cancelling"
        CANCELLED = "cancelled", "Cancelled"
        FINISHED = "finished", "Finished"
        FAILED = "failed", "Failed"

    ONLINE = (Algorithm.GRPO, Algorithm.RLOO, Algorithm.STAR)
    """Learn from rollouts of their own in an environment, not from a dataset version."""

    HELD = (State.STARTING, State.RUNNING, State.CANCELLING)
    ACTIVE = (State.QUEUED, *HELD)
    RESUMABLE = (State.CANCELLED, State.FAILED)

    name = models.CharField(max_length=200)
    algorithm = models.CharField(max_length=20, choices=Algorithm.choices)
    version = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="runs")
    base = models.ForeignKey(Policy, on_delete=models.PROTECT, null=True, related_name="runs")
    result = models.OneToOneField(Policy, on_delete=models.PROTECT, null=True, related_name="made_by")
    preset = models.CharField(max_length=20, blank=True)
    config = models.JSONField(
        default=dict,
        help_text="The algorithm's settings, as the trainer validates them; the worker adds model and data.",
    )
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    state = models.CharField(max_length=12, choices=State.choices, default=State.QUEUED)
    queued_at = models.DateTimeField(db_default=Now(), help_text="Since when it waits, or last waited, for a worker.")
    attempt = models.PositiveIntegerField(default=0, help_text="How often a worker has taken it.")
    worker = models.CharField(max_length=200, blank=True)
    process_id = models.PositiveIntegerField(null=True, help_text="The child's, on `worker`.")
    leased_until = models.DateTimeField(null=True, help_text="While queued: when to tell the workers again.")
    losses = models.PositiveSmallIntegerField(
        default=0, help_text="Workers that vanished since it was started, or last got on."
    )
    events_seq = models.PositiveIntegerField(default=0, help_text="The last event of the trainer that is stored.")
    events_offset = models.BigIntegerField(default=0, help_text="Bytes of events.jsonl up to there.")
    step = models.PositiveIntegerField(default=0)
    total_steps = models.PositiveIntegerField(default=0)
    running_since = models.DateTimeField(null=True, help_text="When this attempt's first step began.")
    running_from = models.PositiveIntegerField(default=0, help_text="The step that this attempt began at.")
    checkpoint_step = models.PositiveIntegerField(null=True)
    device = models.CharField(max_length=100, blank=True)
    parameters = models.BigIntegerField(null=True, help_text="Weights of the model, frozen ones included.")
    memory_mb = models.FloatField(null=True, help_text="Of the child, at its last heartbeat.")
    command = models.TextField(blank=True, help_text="What the worker ran, as typed in a shell.")
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
                condition=Q(state__in=["queued", "starting", "running", "cancelling"]),
                name="run_leases",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_active(self) -> bool:
        return self.state in self.ACTIVE

    @property
    def is_cancellable(self) -> bool:
        return self.is_active and self.state != self.State.CANCELLING

    @property
    def is_resumable(self) -> bool:
        return self.state in self.RESUMABLE


class RunReward(models.Model):
    """A policy that was a term of a run's reward: what it was taught to like is in whatever the run made."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rewards")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="rewarded")
    term = models.CharField(max_length=60, help_text="Its name in the run's curves.")
    component = models.CharField(max_length=30)
    weight = models.FloatField()

    class Meta:
        constraints = [UniqueConstraint(fields=["run", "term"], name="one_policy_per_reward_term")]

    def __str__(self) -> str:
        return f"{self.policy} in {self.run}"


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
