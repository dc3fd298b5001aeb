"""Training runs: their configs, progress, and results."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint
from django.db.models.functions import Now
from django.utils.timezone import now

from apps.accounts.models import User
from apps.common import quantities
from apps.common.fields import FaithfulJSONField
from apps.datasets.models import Version
from apps.gateway.models import Session
from apps.jobs.models import HELD, Headway, Job, JobQuerySet, Phase
from apps.policies.models import Policy
from apps.trajectories.models import RolloutBatch


class RunQuerySet(JobQuerySet["Run"]):
    """Typed queryset of runs."""


class Run(Job):
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
    """Algorithms that learn from rollouts of their own in an environment, not from a dataset version."""

    PHASES = {  # overrides the class variable of Job
        State.QUEUED: Phase.WAITING,
        State.STARTING: Phase.RUNNING,
        State.RUNNING: Phase.RUNNING,
        State.CANCELLING: Phase.STOPPING,
        State.FINISHED: Phase.DONE,
        State.FAILED: Phase.FAILED,
        State.CANCELLED: Phase.CANCELLED,
    }

    name = models.CharField(max_length=200)
    algorithm = models.CharField(max_length=20, choices=Algorithm.choices)
    version = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="runs")
    base = models.ForeignKey(Policy, on_delete=models.PROTECT, null=True, related_name="runs")
    result = models.OneToOneField(Policy, on_delete=models.PROTECT, null=True, related_name="made_by")
    preset = models.CharField(max_length=20, blank=True)
    config = models.JSONField(
        default=dict,
        help_text="The algorithm's settings, as validated by the trainer; the worker adds model and data.",
    )
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    state = models.CharField(max_length=12, choices=State.choices, default=State.QUEUED)
    events_seq = models.PositiveIntegerField(default=0, help_text="Sequence number of the last trainer event stored.")
    events_offset = models.BigIntegerField(default=0, help_text="Byte offset in events.jsonl after that event.")
    step = models.PositiveIntegerField(default=0)
    total_steps = models.PositiveIntegerField(default=0)
    running_since = models.DateTimeField(null=True, help_text="When this attempt's first step began.")
    running_from = models.PositiveIntegerField(default=0, help_text="The step at which this attempt began.")
    step_seconds = models.FloatField(
        null=True, help_text="Typical duration of a step in this attempt, including checkpoints."
    )
    evaluation_seconds = models.FloatField(null=True, help_text="Typical duration of an evaluation in this attempt.")
    evaluations_ahead = models.PositiveIntegerField(
        default=0, help_text="Evaluations scheduled after the current step."
    )
    expected_seconds = models.FloatField(
        null=True, help_text="Duration of training, as estimated by the worker at the start."
    )
    expected_because = models.TextField(blank=True, help_text="What the estimate is based on.")
    checkpoint_step = models.PositiveIntegerField(null=True)
    device = models.CharField(max_length=100, blank=True)
    parameters = models.BigIntegerField(null=True, help_text="Number of model parameters, including frozen ones.")
    memory_mb = models.FloatField(null=True, help_text="Memory used by the child process at its last heartbeat.")
    report = models.JSONField(default=dict)

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
            Index(fields=["workspace", "name", "id"], name="run_by_name"),
            Index(
                fields=["leased_until"],
                condition=Q(state__in=["queued", "starting", "running", "cancelling"]),
                name="run_leases",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def headway(self) -> Headway:
        return Headway(self.step, self.total_steps, "steps")

    @property
    def seconds_left(self) -> float | None:
        """Estimated from the pace of this attempt's steps and evaluations; before the first step, the worker's estimate."""
        if self.phase not in HELD or not self.running_since:
            return None
        if self.step_seconds is None:
            if self.expected_seconds is None or self.running_from:
                return None
            return max(0.0, self.expected_seconds - (now() - self.running_since).total_seconds())
        evaluating = self.evaluations_ahead * (self.evaluation_seconds or 0.0)
        return self.step_seconds * max(0, self.total_steps - self.step) + evaluating

    @property
    def seconds_left_basis(self) -> str:
        """What `seconds_left` is based on."""
        if self.step_seconds is None:
            return self.expected_because
        basis = f"from this run's own pace: {quantities.duration(self.step_seconds)} a step"
        if self.evaluations_ahead and self.evaluation_seconds:
            duration = quantities.duration(self.evaluation_seconds)
            basis += (
                f", {self.evaluations_ahead} more evaluation{'s' if self.evaluations_ahead > 1 else ''} of {duration}"
            )
        return basis

    @property
    def resumes_from(self) -> str:
        return f"step {self.checkpoint_step}" if self.checkpoint_step else "the beginning"

    @property
    def advice_when_lost(self) -> str:
        return (
            "If the machine ran out of memory it may have killed the worker itself: lower the batch size or the longest "
            "row, or use LoRA. Then resume the training run; it continues from its last checkpoint."
        )


class RunReward(models.Model):
    """A policy that was a term of a run's reward, and so influenced the policy the run made."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rewards")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="rewarded")
    term = models.CharField(max_length=60, help_text="The term's name in the training run's curves.")
    component = models.CharField(max_length=30)
    weight = models.FloatField()

    class Meta:
        constraints = [UniqueConstraint(fields=["run", "term"], name="one_policy_per_reward_term")]

    def __str__(self) -> str:
        return f"{self.policy} in {self.run}"


class Metric(models.Model):
    """The metrics of one step. A resumed run loses those after its checkpoint, since it takes these steps again."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="metrics")
    step = models.PositiveIntegerField()
    values = models.JSONField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [UniqueConstraint(fields=["run", "step"], name="one_metric_row_per_step")]


class RunEvent(models.Model):
    """Something that happened to a run, as text for people."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(db_default=Now())
    kind = models.CharField(max_length=30)
    text = models.TextField()
    details = models.JSONField(
        default=dict,
        help_text="For an alarm: its name and the setting to try; for a change: the setting with its old and new value.",
    )

    class Meta:
        indexes = [Index(fields=["run", "id"], name="event_of_run")]


class EpisodeBatch(models.Model):
    """Episodes that runners can lease while `closed_at` is null: those to be played with a run's current weights, or those of a batch of rollouts."""

    id = models.UUIDField(primary_key=True, editable=False, help_text="Id assigned by the trainer.")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="episode_batches")
    rollouts = models.OneToOneField(RolloutBatch, on_delete=models.CASCADE, null=True, related_name="episode_batch")
    moment = models.CharField(
        max_length=100, blank=True, help_text="The point in the run whose weights act: “step 3”, “evaluation”."
    )
    address = models.CharField(
        max_length=500, blank=True, help_text="URL of the server of these weights. Contains a secret."
    )
    lease_seconds = models.PositiveIntegerField(
        help_text="A runner that sends nothing for this long loses its episode."
    )
    most_calls = models.PositiveIntegerField(help_text="Maximum calls in one episode.")
    deadline_seconds = models.PositiveIntegerField(
        null=True,
        help_text="For rollouts, counted from the first lease: the batch then ends with the episodes played so far. A training run's trainer has its own deadline.",
    )
    began_at = models.DateTimeField(null=True, help_text="When the batch's first episode was leased.")
    opened_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [Index(fields=["run", "opened_at"], name="episode_batch_of_run")]
        constraints = [
            UniqueConstraint(fields=["run"], condition=Q(closed_at=None), name="one_open_episode_batch_per_run"),
            CheckConstraint(
                condition=Q(run__isnull=False, rollouts=None) & ~Q(address="")
                | Q(run=None, rollouts__isnull=False, address=""),
                name="episodes_are_of_a_run_or_of_rollouts",
            ),
        ]


class Episode(models.Model):
    """An attempt at a task by a runner: in one session at a time, and in a new one if that session is lost."""

    id = models.UUIDField(primary_key=True, editable=False, help_text="Id assigned by the trainer.")
    batch = models.ForeignKey(EpisodeBatch, on_delete=models.CASCADE, related_name="episodes", db_index=False)
    task = FaithfulJSONField()
    environment = models.CharField(max_length=100)
    attempt = models.PositiveIntegerField()
    session = models.OneToOneField(
        Session,
        on_delete=models.SET_NULL,
        null=True,
        related_name="episode",
        help_text="Session of the runner that plays the episode.",
    )
    losses = models.PositiveSmallIntegerField(default=0, help_text="Sessions that ended without an outcome.")
    answered_at = models.DateTimeField(null=True, help_text="When the outcome was reported to the trainer.")

    class Meta:
        indexes = [
            Index(fields=["batch", "id"], condition=Q(answered_at=None), name="episode_to_play"),
        ]
