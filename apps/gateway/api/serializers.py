"""Request and response serializers of sessions."""

from __future__ import annotations

from typing import Any, TypeVar

from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.reverse import reverse

from apps.common.api import RequestSerializer
from apps.gateway import sessions
from apps.gateway.addresses import base_url_of
from apps.gateway.models import UNNAMED, Session, SessionEvent
from apps.gateway.session_trajectories import key_of
from apps.policies.models import Policy

MAX_JSON_LENGTH = 20_000
LARGEST_REWARD = 1e300
"""Far below the 64-bit limit, so that the sum of a session's rewards can't overflow."""
T = TypeVar("T")


class TaskSerializer(RequestSerializer):
    """A task that may be new. Sessions with the same environment and key are attempts at one task."""

    key = serializers.CharField(
        max_length=300, required=False, help_text="Names the task. Default: derived from the instruction."
    )
    instruction = serializers.CharField(required=False, allow_blank=True, max_length=100_000, default="")
    environment = serializers.CharField(required=False, allow_blank=True, max_length=100, default="")
    category = serializers.CharField(required=False, allow_blank=True, max_length=100, default="")
    difficulty = serializers.CharField(required=False, allow_blank=True, max_length=50, default="")
    held_out = serializers.BooleanField(
        required=False, default=False, help_text="Whether the task is held out, so that it's never trained on."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs.get("key"):
            if not attrs["instruction"]:
                raise ValidationError("Give the task's key, or its instruction.")
            attrs["key"] = key_of(attrs["instruction"])
        return attrs


class NewSessionSerializer(RequestSerializer):
    """A session to open."""

    policy = serializers.CharField(
        max_length=200, required=False, help_text="A served policy's id or name. Alternatively, give a split."
    )
    split = serializers.CharField(
        max_length=80,
        required=False,
        help_text="A traffic split's name, instead of a policy: one of its arms answers, without revealing which. The unit of the draw can be given as metadata.unit.",
    )
    task = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="A task's id, or {key, instruction, environment, category, difficulty, held_out}. Default: the first user message.",
    )
    group = serializers.CharField(
        required=False, default="", max_length=200, help_text="The name of a group of sessions to compare."
    )
    attempt = serializers.IntegerField(required=False, allow_null=True, default=None, min_value=0, max_value=2**31 - 1)
    agent = serializers.CharField(
        required=False, default="", max_length=200, help_text="The name of the program that runs the agent."
    )
    metadata = serializers.DictField(
        required=False, default=dict, help_text="Any other data by which to find the session."
    )
    max_calls = serializers.IntegerField(
        required=False, allow_null=True, default=None, min_value=1, max_value=2**31 - 1
    )
    max_tokens = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=1,
        max_value=2**53,
        help_text="Tokens read and written by all calls.",
    )
    idle_seconds = serializers.IntegerField(
        required=False,
        default=sessions.IDLE_SECONDS,
        min_value=10,
        max_value=sessions.MAX_IDLE_SECONDS,
        help_text="Without a call or an event for this long, the session is abandoned.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("policy" in attrs) == ("split" in attrs):
            raise ValidationError({"policy": ["Give a policy or a split: one of the two."]})
        return attrs

    def validate_metadata(self, value: dict[str, Any]) -> dict[str, Any]:
        return _small("metadata", value)


class EventSerializer(RequestSerializer):
    """An event of a session."""

    key = serializers.CharField(max_length=200, help_text="A key of your choice, by which events are deduplicated.")
    type = serializers.ChoiceField(choices=SessionEvent.Type.choices)
    name = serializers.CharField(required=False, default="", max_length=100)
    value = serializers.JSONField(required=False, allow_null=True, default=None, help_text="A number for a reward.")
    call = serializers.UUIDField(
        required=False, allow_null=True, default=None, help_text="The id of the call that the event is about."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["type"] == SessionEvent.Type.REWARD:
            attrs["value"] = _finite(attrs["value"], "value")
        _small("value", attrs["value"])
        return attrs


class SessionOutcomeSerializer(RequestSerializer):
    """The outcome of a session."""

    success = serializers.BooleanField(required=False, allow_null=True, default=None)
    reward = serializers.FloatField(
        required=False, allow_null=True, default=None, help_text="Default: the sum of the session's reward events."
    )
    rewards = serializers.DictField(
        required=False, default=dict, help_text="Named rewards besides the total, {name: number}."
    )
    metadata = serializers.DictField(required=False, default=dict, help_text="Data to add to the session's metadata.")

    def validate_reward(self, value: float | None) -> float | None:
        return None if value is None else _finite(value, "reward")

    def validate_rewards(self, value: dict[str, Any]) -> dict[str, float]:
        return _small("rewards", {name: _finite(reward, name) for name, reward in value.items()})

    def validate_metadata(self, value: dict[str, Any]) -> dict[str, Any]:
        return _small("metadata", value)


class SessionAbandonmentSerializer(RequestSerializer):
    """Why the outcome of a session is unknown."""

    problem = serializers.CharField(required=False, default="", allow_blank=True, max_length=2000)


class SessionSerializer(serializers.ModelSerializer[Session]):
    """One episode of an external agent."""

    url = serializers.SerializerMethodField()
    policy_name = serializers.CharField(
        read_only=True,
        help_text="What acts: a policy, or the weights of a training run at a step. For a split, its name while the session is open.",
    )
    split = serializers.CharField(
        source="split.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="The traffic split that routed the session.",
    )
    drawn = serializers.PrimaryKeyRelatedField[Policy](
        read_only=True,
        allow_null=True,
        help_text="The policy of the drawn arm, once the session has ended.",
    )
    failover = serializers.CharField(read_only=True, help_text="Why the champion answered instead of the drawn policy.")
    calls = serializers.IntegerField(source="call_count", default=0, read_only=True)
    trajectory = serializers.UUIDField(source="trajectory_id", default=None, allow_null=True, read_only=True)
    task = serializers.JSONField(read_only=True)
    cost = serializers.SerializerMethodField(
        help_text="Cost of its calls in US dollars, at the prices then in effect: dollars (null: unknown), estimated_calls (the server counted no tokens), unknown_calls (there was no price)."
    )

    class Meta:
        model = Session
        fields = [
            *(
                "id",
                "url",
                "state",
                "policy",
                "policy_name",
                "split",
                "drawn",
                "failover",
                "task",
                "group",
                "attempt",
                "agent",
                "name",
                "is_guessed",
                "metadata",
            ),
            *("max_calls", "max_tokens", "idle_seconds", "expires_at", "created_at", "ended_at"),
            *("success", "reward", "rewards", "calls", "cost", "trajectory", "problem"),
        ]
        read_only_fields = fields

    def to_representation(self, instance: Session) -> Any:
        """Whoever runs a session isn't told a split's drawn arm, while it's open and in responses to their requests, nor in those the policy of
        rollouts, which an experiment may compare.
        """
        answer = super().to_representation(instance)
        if instance.split is not None and (instance.is_open or self.context.get("is_blind")):
            answer |= {"policy": None, "policy_name": instance.split.name, "drawn": None, "failover": ""}
        elif instance.rollout_batch_id is not None and self.context.get("is_blind"):
            answer |= {"policy": None, "policy_name": UNNAMED}
        return answer

    def get_cost(self, session: Session) -> dict[str, Any] | None:
        """Null for a session that was just opened, and for a split's open session."""
        return None if hides_cost(session) or "cost_calls" not in vars(session) else session.cost.to_json()

    def get_url(self, session: Session) -> str:
        """URL for polling."""
        return reverse("session", kwargs={"session_id": session.pk}, request=self.context["request"])


class SessionWithKeySerializer(SessionSerializer):
    """A session with its key, which is shown only once."""

    base_url = serializers.SerializerMethodField()
    api_key = serializers.SerializerMethodField()

    class Meta(SessionSerializer.Meta):
        fields = [*SessionSerializer.Meta.fields, "base_url", "api_key"]
        read_only_fields = fields

    def get_base_url(self, session: Session) -> str:
        """The base URL to configure in the agent's library."""
        return base_url_of(self.context["request"])

    def get_api_key(self, session: Session) -> str:
        """The key to configure in the agent's library. Valid only for this session."""
        return str(self.context["key"])


class SessionEventSerializer(serializers.ModelSerializer[SessionEvent]):
    """An event of a session."""

    value = serializers.JSONField(read_only=True)

    class Meta:
        model = SessionEvent
        fields = ["key", "type", "name", "value", "call", "created_at"]
        read_only_fields = fields


class TraceSerializer(serializers.Serializer[Any]):
    """A session's calls so far."""

    trajectory = serializers.JSONField(help_text="The session's longest path, as retrace/1.")
    counts = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="answered, failed, retried, seams, bridged, untrainable, redacted, tokens.",
    )
    cost = serializers.DictField(
        allow_null=True,
        help_text="dollars (null: unknown), estimated_calls, unknown_calls. Null while a split's session is open.",
    )
    events = SessionEventSerializer(many=True)


def hides_cost(session: Session) -> bool:
    """Whether the cost must be hidden, since a price would reveal which policy of a split answers."""
    return session.split is not None and session.is_open


def _finite(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST_REWARD:
        raise ValidationError({name: [f"Expected a finite number between −{LARGEST_REWARD:g} and {LARGEST_REWARD:g}."]})
    return float(value)


def _small(name: str, value: T) -> T:
    if len(str(value)) > MAX_JSON_LENGTH:
        raise ValidationError(
            {
                name: [
                    f"It's longer than {MAX_JSON_LENGTH:,} characters. Keep large things elsewhere, and name their address."
                ]
            }
        )
    return value
