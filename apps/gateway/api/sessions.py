"""REST API of sessions: open, record rewards, finish, read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.authentication import AgentRateThrottle
from apps.accounts.models import ApiToken, Role
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer
from apps.common.ids import parsed_id
from apps.common.text_encoding import is_storable
from apps.gateway import sessions
from apps.gateway.api.serializers import (
    EventSerializer,
    NewSessionSerializer,
    SessionAbandonmentSerializer,
    SessionEventSerializer,
    SessionOutcomeSerializer,
    SessionSerializer,
    SessionWithKeySerializer,
    TaskSerializer,
    TraceSerializer,
    hides_cost,
)
from apps.gateway.models import Session
from apps.gateway.queries import cost_of, counts_of, record_of, session_for_list, sessions_for_list
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import open_split_session, unit_in, unit_of
from apps.policies.models import Policy
from apps.trajectories.export import task_record
from apps.trajectories.models import Task
from contract.trajectory import Task as TaskRecord


class SessionsView(ListView):
    """The workspace's sessions."""

    needs = Role.RESEARCHER
    throttle_classes = (AgentRateThrottle,)
    keeps_answers = False  # responses contain the session's key, of which only the hash is stored

    @extend_schema(
        operation_id="sessions_create",
        summary="Open a session for an agent",
        description="The agent sends its chats to `base_url` with `api_key`, as it would to OpenAI. The key is shown once.",
        request=NewSessionSerializer,
        responses={201: SessionWithKeySerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        form = NewSessionSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        task = self._task(data.pop("task", None))
        values = {"task": task, "by": self.member.user, "token": self._token(), **data}
        try:
            opened = self._of_split(values) if "split" in values else self._of_policy(values)
        except sessions.SessionRefused as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        context = {"request": request, "key": opened.key}
        answer = SessionWithKeySerializer(opened.session, context=context).data
        return Response(answer, status=status.HTTP_201_CREATED, headers={"Location": answer["url"]})

    @extend_schema(
        operation_id="sessions_list",
        summary="List sessions, newest first",
        parameters=[OpenApiParameter("name", str, description="Only sessions that agents named this in X-Session-Id.")],
        responses=SessionSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = sessions_for_list(self.member).of_policies()
        if name := request.query_params.get("name"):
            rows = rows.filter(name=name) if is_storable(name) else rows.none()
        return self.page_of(rows, SessionSerializer)

    def _of_policy(self, values: dict[str, Any]) -> sessions.NewSession:
        policy = self._policy(values.pop("policy"))
        return sessions.open_session(workspace=self.member.workspace, policy=policy, **values)

    def _of_split(self, values: dict[str, Any]) -> sessions.NewSession:
        name = values.pop("split")
        splits = TrafficSplit.objects.visible_to(self.member).select_related("workspace")
        split = splits.filter(name=name).first()
        if split is None:
            raise ValidationError(
                {"split": [f"There is no traffic split {name!r}. GET /api/v1/traffic-splits lists them."]}
            )
        unit = unit_of(split, task=values["task"], unit=unit_in(values["metadata"]))
        return open_split_session(split=split, unit=unit, **values)

    def _token(self) -> ApiToken | None:
        return self.request.auth if isinstance(self.request.auth, ApiToken) else None

    def _policy(self, name_or_id: str) -> Policy:
        policies = Policy.objects.visible_to(self.member).acting()
        pk = parsed_id(name_or_id)
        matches = Q(pk=pk) | Q(name=name_or_id) if pk else Q(name=name_or_id)
        policy = policies.filter(matches).select_related("endpoint").first()
        if policy is None:
            raise ValidationError(
                {"policy": [f"There is no policy {name_or_id!r} that can act. GET /api/v1/policies lists them."]}
            )
        return policy

    def _task(self, value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        if isinstance(value, str):
            return self._known_task(value)
        if not isinstance(value, dict):
            raise ValidationError({"task": ["Expected a task's id, or an object with its key or its instruction."]})
        form = TaskSerializer(data=value)
        if not form.is_valid():
            problems = [f"{name}: {problem}" for name, messages in form.errors.items() for problem in messages]
            raise ValidationError({"task": problems})
        return TaskRecord(**form.validated_data).to_json()

    def _known_task(self, key_or_id: str) -> dict[str, Any]:
        try:
            task = Task.objects.visible_to(self.member).get(pk=UUID(key_or_id))
        except (ValueError, Task.DoesNotExist):
            raise ValidationError({"task": [f"There is no task {key_or_id!r}."]}) from None
        return replace(task_record(task), initial_state={}, success_check={}).to_json()


class _OneSession(MemberView):
    needs = Role.RESEARCHER
    throttle_classes = (AgentRateThrottle,)

    def find(self, session_id: UUID) -> Session:
        session = session_for_list(self.member, session_id)
        if session is None:
            raise Http404
        return session

    def changed(
        self, session_id: UUID, change: Callable[..., object], form: type[RequestSerializer] | None = None
    ) -> Response:
        """Apply `change`, which takes the fields of `form`, and return the session. Raises Conflict if it has ended differently.

        The session is looked up first: requests from outsiders aren't even parsed.
        """
        session, facts = get_object_or_404(Session.objects.visible_to(self.member), pk=session_id), {}
        if form is not None:
            serializer = form(data=self.request.data)
            serializer.is_valid(raise_exception=True)
            facts = serializer.validated_data
        try:
            change(session=session, **facts)
        except sessions.SessionOver as refusal:
            raise Conflict(str(refusal)) from None
        context = {"request": self.request, "is_blind": True}
        return Response(SessionSerializer(self.find(session_id), context=context).data)


class SessionView(_OneSession):
    """One session."""

    @extend_schema(operation_id="sessions_read", summary="Read a session", responses=SessionSerializer)
    def get(self, request: Request, session_id: UUID) -> Response:
        return Response(SessionSerializer(self.find(session_id), context={"request": request}).data)


class EventsView(_OneSession):
    """Records events of an open session."""

    @extend_schema(
        operation_id="session_events_create",
        summary="Record a reward or another event of a session or of one of its calls",
        request=EventSerializer,
        responses={201: SessionEventSerializer, 409: OpenApiResponse(description="The session has ended.")},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        session = self.find(session_id)
        form = EventSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values = form.validated_data
        try:
            noted = sessions.record_event(session=session, call_id=values.pop("call"), **values)
        except sessions.SessionOver as refusal:
            raise Conflict(str(refusal)) from None
        except sessions.SessionRefused as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        return Response(SessionEventSerializer(noted).data, status=status.HTTP_201_CREATED)


class FinishView(_OneSession):
    """Finishes a session."""

    @extend_schema(
        operation_id="sessions_finish",
        summary="End a session with its outcome; its calls become a trajectory",
        request=SessionOutcomeSerializer,
        responses={200: SessionSerializer, 409: OpenApiResponse(description="It has ended with another outcome.")},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        return self.changed(session_id, sessions.finish_session, SessionOutcomeSerializer)


class RenewView(_OneSession):
    """Extends a session without calls."""

    @extend_schema(
        operation_id="sessions_renew",
        summary="Keep a session open although it makes no calls",
        request=None,
        responses={200: SessionSerializer, 409: OpenApiResponse(description="It has ended.")},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        return self.changed(session_id, sessions.renew_session)


class AbandonView(_OneSession):
    """Abandons a session with an unknown outcome."""

    @extend_schema(
        operation_id="sessions_abandon",
        summary="End a session without an outcome; a leased episode is given out again",
        request=SessionAbandonmentSerializer,
        responses={200: SessionSerializer, 409: OpenApiResponse(description="It is finished.")},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        return self.changed(session_id, sessions.abandon_session, SessionAbandonmentSerializer)


class TraceView(_OneSession):
    """A session's calls so far."""

    @extend_schema(
        operation_id="sessions_trace", summary="A session's calls so far, as a trajectory", responses=TraceSerializer
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        session = self.find(session_id)
        record = record_of(session)
        if session.is_open:
            record.policy = session.public_name
        trace = {
            "trajectory": record.to_json(),
            "counts": counts_of(session)._asdict(),
            "cost": None if hides_cost(session) else cost_of(session).to_json(),
            "events": session.events.order_by("pk"),
        }
        return Response(TraceSerializer(trace).data)
