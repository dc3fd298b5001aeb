"""Sessions of external agents, and their model calls."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Self

from django.db import models
from django.db.models import CheckConstraint, Exists, F, Index, OuterRef, Q, UniqueConstraint
from django.db.models.functions import Now

from apps.accounts.models import ApiToken, Membership, Role, User, WorkspaceModel, WorkspaceQuerySet
from apps.common.fields import FaithfulJSONField
from apps.common.ids import new_id
from apps.gateway.spending.costs import Cost, cost_in
from apps.gateway.spending.models import Price, UsageLimits
from apps.gateway.splits.models import TrafficSplit
from apps.policies.models import Endpoint, Policy
from apps.trajectories.models import RolloutBatch, Trajectory
from contract.values import mapping

__all__ = ["Price", "UsageLimits"]  # Django finds them here


UNNAMED = "policy"
"""Shown to agents in place of the name of a policy that they aren't told."""
IDLE_STEPS = 10
"""A session's expiry moves in this many steps per idle time: a new value costs an entry in each of the table's indexes."""


def expiry_after(idle_seconds: int) -> datetime:
    """When a session that is active now is abandoned: after its idle time, or up to a tenth of it later."""
    step = idle_seconds / IDLE_STEPS
    return datetime.fromtimestamp((time.time() // step + 1) * step + idle_seconds, UTC)


class SessionQuerySet(WorkspaceQuerySet["Session"]):
    def open(self) -> Self:
        return self.filter(state=Session.State.OPEN)

    def with_valid_keys(self) -> Self:
        """Sessions whose key is valid: whoever opened them may still open sessions, and the token used to open them isn't revoked.

        Sessions with a name have no key that anybody knows; their calls carry a token.
        """
        memberships = Membership.objects.filter(
            user=OuterRef("created_by"),
            workspace=OuterRef("workspace"),
            role__gte=Role.RESEARCHER,
            user__is_active=True,
        )
        return self.exclude(token__revoked_at__isnull=False, name="").filter(Exists(memberships) | ~Q(name=""))

    def of_policies(self) -> Self:
        """Sessions except those of training runs, which number in the thousands and are shown with their runs."""
        return self.filter(policy__isnull=False)

    def idle_at(self, moment: datetime) -> Self:
        """Open sessions without activity for their maximum idle time."""
        return self.open().filter(expires_at__lte=moment)


class Session(WorkspaceModel):
    """One episode of an external agent. Its key gives access to one policy through the gateway until the session ends."""

    class State(models.TextChoices):
        OPEN = "open", "Open"
        FINISHED = "finished", "Finished"
        ABANDONED = "abandoned", "Abandoned"

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, null=True, related_name="sessions")
    endpoint = models.ForeignKey(
        Endpoint,
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        help_text="Endpoint that serves the policy; null: this installation's server of small models.",
    )
    training_address = models.CharField(
        max_length=500,
        blank=True,
        help_text="URL of the server of the weights in training, used instead of a policy's endpoint. Contains a secret.",
    )
    training_name = models.CharField(max_length=300, blank=True, help_text="Display name of the weights in training.")
    served_name = models.CharField(
        max_length=500, help_text="The policy's name on its server when the session began, used for all calls."
    )
    task = FaithfulJSONField(help_text="The task, as in a trajectory; {} if the first user message is the task.")
    group = models.CharField(max_length=200, blank=True, help_text="Groups sessions of one task for comparison.")
    attempt = models.PositiveIntegerField(null=True, help_text="Index within the group.")
    agent = models.CharField(max_length=200, blank=True, help_text="What runs the agent.")
    name = models.CharField(
        max_length=200,
        blank=True,
        help_text="The agent's X-Session-Id, for sessions opened by a call with an API token.",
    )
    is_guessed = models.BooleanField(
        default=False, help_text="Its calls were grouped by trace because the agent named no session."
    )
    metadata = models.JSONField(default=dict)
    max_calls = models.PositiveIntegerField(null=True)
    max_tokens = models.PositiveBigIntegerField(
        null=True, help_text="Limit on prompt and completion tokens over all calls."
    )
    calls_begun = models.PositiveIntegerField(
        default=0,
        help_text="Counted towards max_calls, if set; includes calls in progress and failed calls whose reply may have been computed.",
    )
    tokens_used = models.PositiveBigIntegerField(
        default=0,
        help_text="Counted towards max_tokens; estimated for replies that weren't read to their end or whose tokens the server didn't count.",
    )
    key_digest = models.CharField(max_length=64, unique=True)
    key_prefix = models.CharField(max_length=16)
    idle_seconds = models.PositiveIntegerField(help_text="Without a call for this long, the session is abandoned.")
    expires_at = models.DateTimeField(help_text="When the session is abandoned if there is no further activity.")
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    ended_at = models.DateTimeField(null=True)
    success = models.BooleanField(null=True)
    reward = models.FloatField(null=True)
    rewards = models.JSONField(default=dict, help_text="Named rewards of the whole session.")
    problem = models.TextField(blank=True, help_text="Why the session couldn't become a trajectory.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    split = models.ForeignKey(
        TrafficSplit,
        on_delete=models.PROTECT,
        null=True,
        related_name="sessions",
        db_index=False,
        help_text="The traffic split through which the session was opened.",
    )
    drawn = models.ForeignKey(
        Policy,
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        help_text="Policy of the arm drawn from the split.",
    )
    failover = models.TextField(blank=True, help_text="Why the champion answers instead of the drawn policy.")
    unit_digest = models.BinaryField(
        max_length=16, null=True, help_text="Digest of the unit that the arm was drawn for."
    )
    sampling = models.JSONField(default=dict, help_text="The policy's sampling settings, applied to all calls.")
    experiment = models.UUIDField(null=True, help_text="The live experiment that the session takes part in.")
    is_fed = models.BooleanField(default=False, help_text="The live experiment has processed the session.")
    rollout_batch = models.ForeignKey(
        RolloutBatch,
        on_delete=models.SET_NULL,
        null=True,
        related_name="sessions",
        db_index=False,
        help_text="The batch of rollouts whose episode a runner plays in this session.",
    )
    token = models.ForeignKey(
        ApiToken,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="The API token that opened the session.",
    )

    objects = SessionQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(state="open") | Q(ended_at__isnull=False), name="ended_session_has_a_time"),
            CheckConstraint(
                condition=Q(state="finished") | Q(success=None, reward=None),
                name="only_finished_sessions_have_outcomes",
            ),
            CheckConstraint(
                condition=Q(policy__isnull=False, training_address="")
                | Q(policy=None, endpoint=None) & ~Q(training_address=""),
                name="a_policy_or_weights_in_training_act",
            ),
            UniqueConstraint(
                fields=["workspace", "policy", "name"],
                condition=~Q(name="") & Q(state="open", split=None),
                name="one_open_session_per_name",
            ),
            UniqueConstraint(
                fields=["split", "name"],
                condition=~Q(name="") & Q(state="open"),
                name="one_open_session_per_split_and_name",
            ),
            CheckConstraint(condition=Q(split__isnull=False) | Q(drawn=None, failover=""), name="a_split_draws_arms"),
        ]
        indexes = [
            Index(fields=["split", "-id"], condition=Q(split__isnull=False), name="session_by_split"),
            Index(
                fields=["experiment", "id"],
                condition=Q(experiment__isnull=False, is_fed=False) & ~Q(state="open"),
                name="session_to_feed",
            ),
            Index(fields=["rollout_batch"], condition=Q(rollout_batch__isnull=False), name="session_of_rollouts"),
            Index(fields=["workspace", "-id"], name="session_newest"),
            Index(fields=["workspace", "name"], condition=~Q(name=""), name="session_by_name"),
            Index(fields=["expires_at"], condition=Q(state="open"), name="session_idle"),
            Index(fields=["workspace", "group"], condition=~Q(group=""), name="session_by_group"),
        ]

    def __str__(self) -> str:
        return f"Session {self.key_prefix}…"

    @property
    def is_open(self) -> bool:
        return self.state == self.State.OPEN

    @property
    def is_of_training(self) -> bool:
        """Whether the weights of a training run act, which aren't a policy yet; the result belongs to the training run."""
        return self.policy_id is None

    @property
    def policy_name(self) -> str:
        """Display name of what acts."""
        return self.training_name if self.policy is None else self.policy.name

    @property
    def public_name(self) -> str:
        """The name shown to its agent: for a split, only the split's, and for an experiment's rollouts, none."""
        if self.split is not None:
            return self.split.name
        return UNNAMED if self.rollout_batch_id else self.policy_name

    @property
    def cost(self) -> Cost:
        """Cost of its calls, if the query has summed it."""
        return cost_in(vars(self))

    @property
    def title(self) -> str:
        """A title for headings."""
        task = mapping(self.task)
        return str(task.get("instruction") or task.get("key") or "") or str(self)


class Join(models.TextChoices):
    """How a call is known to continue another."""

    ROOT = "", "Begins anew"
    TOKENS = "tokens", "Its prompt begins with exactly the tokens of the call before"
    MESSAGES = "messages", "It repeats the messages of the call before, in other tokens"


class Dialect(models.TextChoices):
    """An agent protocol, by the name of its class in `dialects`."""

    CHAT = "chat", "OpenAI's chat completions"
    MESSAGES = "messages", "Anthropic's Messages"
    RESPONSES = "responses", "OpenAI's Responses"


class Call(models.Model):
    """One request of an agent to its policy, and the reply. Prompts are stored as the difference to the call that they continue."""

    class Status(models.TextChoices):
        OK = "ok", "Answered"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled by the agent"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="calls", db_index=False)
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="children", db_index=False)
    join = models.CharField(max_length=10, choices=Join.choices, blank=True)
    is_bridged = models.BooleanField(
        default=False,
        help_text="Its prompt continues the sampled tokens, where the server would have rendered them differently.",
    )
    status = models.CharField(max_length=10, choices=Status.choices)
    dialect = models.CharField(
        max_length=10, choices=Dialect.choices, default=Dialect.CHAT, help_text="The protocol of the request."
    )
    is_retry = models.BooleanField(default=False, help_text="The agent's library resent the request.")
    request = FaithfulJSONField(help_text="The agent's request without messages and tools.")
    messages = FaithfulJSONField(help_text="Messages added to those of the parent call.")
    tools = FaithfulJSONField(null=True, help_text="Tools offered; null: the same as in the parent call.")
    reply = FaithfulJSONField(null=True, help_text="As sent to the agent.")
    error = models.TextField(blank=True)
    http_status = models.PositiveSmallIntegerField(help_text="As sent to the agent.")
    prompt_tokens = models.PositiveIntegerField(null=True)
    completion_tokens = models.PositiveIntegerField(null=True)
    cached_tokens = models.PositiveIntegerField(null=True, help_text="Prompt tokens read from a cache.")
    cost = models.DecimalField(
        max_digits=24,
        decimal_places=12,
        null=True,
        help_text="In US dollars, at the prices when the call was made; null without a price.",
    )
    is_cost_estimated = models.BooleanField(
        default=False, help_text="The cost is an estimate because the server didn't count the tokens."
    )
    prompt_ids = models.BinaryField(
        null=True, help_text="int32: token ids of the prompt that follow those of the parent call."
    )
    sampled_ids = models.BinaryField(null=True, help_text="int32: token ids sampled by the policy.")
    logprobs = models.BinaryField(null=True, help_text="float32: log-probabilities of the sampled tokens, in nats.")
    is_redacted = models.BooleanField(
        default=False,
        help_text="Part of its messages, or of an earlier call's that it continues, was redacted before storage.",
    )
    untrainable = models.CharField(max_length=200, blank=True, help_text="Why the call can't be used for training.")
    body_digest = models.BinaryField(max_length=16, help_text="Digest of the request, to detect retries.")
    tools_digest = models.BinaryField(max_length=16, help_text="Digest of the tools offered.")
    chat_digest = models.BinaryField(
        max_length=16, help_text="Digest of the messages including the reply, to detect calls that continue this one."
    )
    sequence_length = models.PositiveIntegerField(null=True, help_text="Number of tokens of prompt and reply.")
    sequence_digest = models.BinaryField(
        max_length=16, null=True, help_text="Digest of the tokens of prompt and reply."
    )
    seconds = models.FloatField(help_text="Time from the request to the end of the reply.")
    first_seconds = models.FloatField(
        null=True, help_text="Time from the request to the first chunk of a streamed reply."
    )
    began_at = models.DateTimeField()

    class Meta:
        constraints = [CheckConstraint(condition=~Q(parent=F("id")), name="call_is_not_its_own_parent")]
        indexes = [Index(fields=["session", "id"], name="call_by_session")]


class SessionEvent(models.Model):
    """An event of an open session or one of its calls. Events are deduplicated by key."""

    class Type(models.TextChoices):
        REWARD = "reward", "Reward"
        CUSTOM = "custom", "Custom"

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="events", db_index=False)
    key = models.CharField(max_length=200)
    type = models.CharField(max_length=10, choices=Type.choices)
    name = models.CharField(max_length=100, blank=True)
    value = models.JSONField(null=True)
    call = models.ForeignKey(Call, on_delete=models.CASCADE, null=True, related_name="events")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [UniqueConstraint(fields=["session", "key"], name="one_session_event_per_key")]


class Path(models.Model):
    """The calls from a root of a session's graph to a leaf, and their trajectory."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="paths", db_index=False)
    leaf = models.ForeignKey(Call, on_delete=models.CASCADE, related_name="+", db_index=False)
    trajectory = models.OneToOneField(Trajectory, on_delete=models.CASCADE, related_name="session_path")
    is_main = models.BooleanField(help_text="The longest path, whose trajectory gets the session's outcome.")

    class Meta:
        constraints = [
            UniqueConstraint(fields=["session", "leaf"], name="one_path_per_leaf"),
            UniqueConstraint(fields=["session"], condition=Q(is_main=True), name="one_main_path_per_session"),
        ]


class FeedbackKeyQuerySet(WorkspaceQuerySet["FeedbackKey"]):
    def usable(self) -> Self:
        """Keys that aren't revoked and whose creators may still read feedback."""
        memberships = Membership.objects.filter(
            user=OuterRef("created_by"),
            workspace=OuterRef("workspace"),
            role__gte=Role.RESEARCHER,
            user__is_active=True,
        )
        return self.filter(Exists(memberships), revoked_at=None)


class FeedbackKey(WorkspaceModel):
    """A key that is safe to embed in web pages: users can send feedback on a session with it, and nothing else. Only its SHA-256 is stored."""

    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    revoked_at = models.DateTimeField(null=True)

    objects = FeedbackKeyQuerySet.as_manager()

    class Meta:
        indexes = [Index(fields=["workspace", "-id"], name="feedback_key_newest")]


class Feedback(models.Model):
    """A user's feedback on a session. It becomes a judgment once the session is a trajectory; the session's latest feedback counts."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="feedback", db_index=False)
    key = models.ForeignKey(FeedbackKey, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)
    call = models.ForeignKey(Call, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    thumb = models.SmallIntegerField(null=True, help_text="+1 up, −1 down.")
    comment = models.TextField(blank=True)
    edited = models.TextField(blank=True, help_text="What the agent should have answered.")
    created_at = models.DateTimeField(db_default=Now())
    judged_at = models.DateTimeField(null=True, help_text="When it became a judgment, or was found not to become one.")

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(thumb=None) | Q(thumb__in=[-1, 1]), name="a_users_thumb_is_up_or_down"),
            CheckConstraint(
                condition=Q(thumb__isnull=False) | ~Q(comment="") | ~Q(edited=""), name="feedback_says_something"
            ),
        ]
        indexes = [
            Index(fields=["session", "-id"], name="feedback_of_session"),
            Index(fields=["id"], condition=Q(judged_at=None), name="feedback_to_be_judged"),
        ]
