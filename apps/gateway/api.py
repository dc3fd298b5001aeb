"""Sessions over the API: open, tell rewards, finish, read."""

from __future__ import annotations

import hashlib
import math
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer
from apps.gateway import sessions
from apps.gateway.models import Session, SessionEvent
from apps.gateway.queries import counts_of, record_of, sessions_for_list
from apps.policies.models import Policy
from apps.trajectories.models import Task
from contract.trajectory import Task as TaskRecord

LONGEST_JSON = 20_000
T = TypeVar("T")


def base_url_of(request: HttpRequest) -> str:
    """Where the gateway is, for an agent's library: GATEWAY_URL, else beside these pages."""
    return settings.GATEWAY_URL or request.build_absolute_uri("/gateway/v1")


class TaskSerializer(RequestSerializer):
    """A task that needn't be known yet. Sessions with the same environment and key are attempts at one task."""

    key = serializers.CharField(
        max_length=300, required=False, help_text="Names the task. Left out: told by the instruction."
    )
    instruction = serializers.CharField(required=False, allow_blank=True, max_length=100_000, default="")
    environment = serializers.CharField(required=False, allow_blank=True, max_length=100, default="")
    category = serializers.CharField(required=False, allow_blank=True, max_length=100, default="")
    difficulty = serializers.CharField(required=False, allow_blank=True, max_length=50, default="")
    held_out = serializers.BooleanField(required=False, default=False, help_text="Nothing is ever trained on it.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs.get("key"):
            if not attrs["instruction"]:
                raise ValidationError("Give the task's key, or its instruction.")
            attrs["key"] = hashlib.sha256(attrs["instruction"].encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return attrs


class OpenSerializer(RequestSerializer):
    """A session to open."""

    policy = serializers.CharField(max_length=200, help_text="Who answers: a served policy's id or name.")
    task = serializers.JSONField(
        required=False,
        help_text="A task's id, or {key, instruction, environment, category, difficulty, held_out}. Left out: the first user message.",
    )
    group = serializers.CharField(required=False, default="", max_length=200, help_text="Sessions that are compared.")
    attempt = serializers.IntegerField(required=False, allow_null=True, default=None, min_value=0, max_value=2**31 - 1)
    agent = serializers.CharField(required=False, default="", max_length=200, help_text="What runs it.")
    metadata = serializers.DictField(required=False, default=dict, help_text="Anything else to find it by.")
    max_calls = serializers.IntegerField(
        required=False, allow_null=True, default=None, min_value=1, max_value=2**31 - 1
    )
    max_tokens = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=1,
        max_value=2**53,
        help_text="Read and written, over all calls.",
    )
    idle_seconds = serializers.IntegerField(
        required=False,
        default=sessions.IDLE_SECONDS,
        min_value=10,
        max_value=sessions.LONGEST_IDLE,
        help_text="Without a call or an event for so long, the session is abandoned.",
    )

    def validate_metadata(self, value: dict[str, Any]) -> dict[str, Any]:
        return _small("metadata", value)


class EventSerializer(RequestSerializer):
    """Something to note of a session."""

    key = serializers.CharField(max_length=200, help_text="Of your choice; the same key again is the same event.")
    type = serializers.ChoiceField(choices=SessionEvent.Type.choices)
    name = serializers.CharField(required=False, default="", max_length=100)
    value = serializers.JSONField(required=False, allow_null=True, default=None, help_text="A number for a reward.")
    call = serializers.UUIDField(required=False, allow_null=True, default=None, help_text="The call that it's about.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["type"] == SessionEvent.Type.REWARD:
            attrs["value"] = _finite(attrs["value"], "value")
        _small("value", attrs["value"])
        return attrs


class FinishSerializer(RequestSerializer):
    """How a session went."""

    success = serializers.BooleanField(required=False, allow_null=True, default=None)
    reward = serializers.FloatField(
        required=False, allow_null=True, default=None, help_text="Left out: the sum of the session's reward events."
    )
    rewards = serializers.DictField(required=False, default=dict, help_text="Named rewards beside it, {name: number}.")
    metadata = serializers.DictField(required=False, default=dict, help_text="Added to the session's.")

    def validate_reward(self, value: float | None) -> float | None:
        return None if value is None else _finite(value, "reward")

    def validate_rewards(self, value: dict[str, Any]) -> dict[str, float]:
        return _small("rewards", {name: _finite(each, name) for name, each in value.items()})

    def validate_metadata(self, value: dict[str, Any]) -> dict[str, Any]:
        return _small("metadata", value)


class SessionSerializer(serializers.ModelSerializer[Session]):
    """One episode of an agent that lives elsewhere."""

    url = serializers.SerializerMethodField()
    policy_name = serializers.CharField(source="policy.name", read_only=True)
    calls = serializers.IntegerField(source="call_count", default=0, read_only=True)
    trajectory = serializers.UUIDField(source="trajectory_id", default=None, allow_null=True, read_only=True)
    task = serializers.JSONField(read_only=True)

    class Meta:
        model = Session
        fields = [
            *("id", "url", "state", "policy", "policy_name", "task", "group", "attempt", "agent", "metadata"),
            *("max_calls", "max_tokens", "idle_seconds", "expires_at", "created_at", "ended_at"),
            *("success", "reward", "rewards", "calls", "trajectory", "problem"),
        ]
        read_only_fields = fields

    def get_url(self, session: Session) -> str:
        """Where to ask again."""
        return reverse("session", kwargs={"session_id": session.pk}, request=self.context["request"])


class OpenedSerializer(SessionSerializer):
    """A session with its key, which is shown this once."""

    base_url = serializers.SerializerMethodField()
    api_key = serializers.SerializerMethodField()

    class Meta(SessionSerializer.Meta):
        fields = [*SessionSerializer.Meta.fields, "base_url", "api_key"]
        read_only_fields = fields

    def get_base_url(self, session: Session) -> str:
        """For the agent's library."""
        return base_url_of(self.context["request"])

    def get_api_key(self, session: Session) -> str:
        """For the agent's library. It opens this session, and nothing else."""
        return str(self.context["key"])


class SessionEventSerializer(serializers.ModelSerializer[SessionEvent]):
    """What was noted of a session."""

    value = serializers.JSONField(read_only=True)

    class Meta:
        model = SessionEvent
        fields = ["key", "type", "name", "value", "call", "created_at"]
        read_only_fields = fields


class TraceSerializer(serializers.Serializer[Any]):
    """What a session has come to so far."""

    trajectory = serializers.JSONField(help_text="Its longest path, as retrace/1.")
    counts = serializers.DictField(
        child=serializers.IntegerField(), help_text="answered, failed, retried, seams, untrainable, tokens."
    )
    events = SessionEventSerializer(many=True)


class SessionsView(ListView):
    """The workspace's sessions."""

    needs = Role.RESEARCHER
    keeps_answers = False  # they hold the session's key, of which only the hash is stored

    @extend_schema(
        operation_id="sessions_create",
        summary="Open a session for an agent",
        description="The agent sends its chats to `base_url` with `api_key`, as it would to OpenAI. The key is shown once.",
        request=OpenSerializer,
        responses={201: OpenedSerializer, 400: OpenApiResponse(description="Refused, by field.")},
    )
    def post(self, request: Request) -> Response:
        form = OpenSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data
        task = self._task(wanted.pop("task", None))
        policy = self._policy(wanted.pop("policy"))
        try:
            opened = sessions.open_session(
                workspace=self.member.workspace, policy=policy, task=task, by=self.member.user, **wanted
            )
        except sessions.SessionRefused as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        context = {"request": request, "key": opened.key}
        answer = OpenedSerializer(opened.session, context=context).data
        return Response(answer, status=status.HTTP_201_CREATED, headers={"Location": answer["url"]})

    @extend_schema(
        operation_id="sessions_list", summary="List sessions, newest first", responses=SessionSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.page_of(sessions_for_list(self.member), SessionSerializer)

    def _policy(self, named: str) -> Policy:
        known = Policy.objects.visible_to(self.member).acting()
        try:
            meant = Q(pk=UUID(named)) | Q(name=named)
        except ValueError:
            meant = Q(name=named)
        policy = known.filter(meant).select_related("endpoint").first()
        if policy is None:
            raise ValidationError(
                {"policy": [f"There is no policy {named!r} that can act. GET /api/v1/policies lists them."]}
            )
        return policy

    def _task(self, given: Any) -> dict[str, Any] | None:
        if given is None:
            return None
        if isinstance(given, str):
            return self._known_task(given)
        if not isinstance(given, dict):
            raise ValidationError({"task": ["Expected a task's id, or an object with its key or its instruction."]})
        form = TaskSerializer(data=given)
        if not form.is_valid():
            problems = [f"{name}: {problem}" for name, found in form.errors.items() for problem in found]
            raise ValidationError({"task": problems})
        return TaskRecord(**form.validated_data).to_json()

    def _known_task(self, named: str) -> dict[str, Any]:
        try:
            task = Task.objects.visible_to(self.member).get(pk=UUID(named))
        except (ValueError, Task.DoesNotExist):
            raise ValidationError({"task": [f"There is no task {named!r}."]}) from None
        return TaskRecord(
            key=task.key,
            instruction=task.instruction,
            environment=task.environment,
            category=task.category,
            difficulty=task.difficulty,
            held_out=task.held_out,
        ).to_json()


class _OneSession(MemberView):
    needs = Role.RESEARCHER

    def find(self, session_id: UUID) -> Session:
        return get_object_or_404(sessions_for_list(self.member), pk=session_id)


class SessionView(_OneSession):
    """One session."""

    @extend_schema(operation_id="sessions_read", summary="How a session is doing", responses=SessionSerializer)
    def get(self, request: Request, session_id: UUID) -> Response:
        return Response(SessionSerializer(self.find(session_id), context={"request": request}).data)


class EventsView(_OneSession):
    """Rewards of a session while it goes on."""

    @extend_schema(
        operation_id="session_events_create",
        summary="Note a reward of a session or of one of its calls",
        request=EventSerializer,
        responses={201: SessionEventSerializer, 409: OpenApiResponse(description="The session has ended.")},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        session = self.find(session_id)
        form = EventSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        said = form.validated_data
        try:
            noted = sessions.record_event(session=session, call_id=said.pop("call"), **said)
        except sessions.SessionOver as refusal:
            raise Conflict(str(refusal)) from None
        except sessions.SessionRefused as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        return Response(SessionEventSerializer(noted).data, status=status.HTTP_201_CREATED)


class FinishView(_OneSession):
    """The end of a session."""

    @extend_schema(
        operation_id="sessions_finish",
        summary="End a session with its outcome; its calls become a trajectory",
        request=FinishSerializer,
        responses={200: SessionSerializer, 409: OpenApiResponse(description="It has ended with another outcome.")},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        session = self.find(session_id)
        form = FinishSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            sessions.finish_session(session=session, **form.validated_data)
        except sessions.SessionOver as refusal:
            raise Conflict(str(refusal)) from None
        return Response(SessionSerializer(self.find(session_id), context={"request": request}).data)


class TraceView(_OneSession):
    """What a session has come to."""

    @extend_schema(
        operation_id="sessions_trace", summary="A session's calls so far, as a trajectory", responses=TraceSerializer
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        session = self.find(session_id)
        trace = {
            "trajectory": record_of(session).to_json(),
            "counts": counts_of(session)._asdict(),
            "events": session.events.order_by("pk"),
        }
        return Response(TraceSerializer(trace).data)


def _finite(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValidationError({name: ["Expected a finite number."]})
    return float(value)


def _small(name: str, value: T) -> T:
    if len(str(value)) > LONGEST_JSON:
        raise ValidationError(
            {
                name: [
                    f"It's longer than {LONGEST_JSON:,} characters. Keep large things elsewhere, and name their address."
                ]
            }
        )
    return value
