"""REST for traces: what has arrived, and the resulting trajectories. Exporters send to `asgi`."""

from __future__ import annotations

from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.common.api import ListView, MemberView
from apps.common.text_encoding import is_storable
from apps.traces.models import Trace
from apps.traces.queries import traces_for_list


class TelemetryTraceSerializer(serializers.ModelSerializer[Trace]):
    """An OpenTelemetry trace sent by an instrumented agent."""

    trajectories = serializers.SerializerMethodField(help_text="The trajectories made from it, one for each chat.")

    class Meta:
        model = Trace
        fields = [
            *("id", "trace_id", "name", "service", "state", "span_count", "model_calls", "size", "has_root"),
            *("problem", "trajectories", "created_at", "changed_at", "due_at"),
        ]
        read_only_fields = fields

    def get_trajectories(self, trace: Trace) -> list[UUID]:
        """In order of appearance."""
        return [part.trajectory_id for part in trace.parts.all()]


class TracesView(ListView):
    """The workspace's traces."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="traces_list",
        summary="List traces that agents sent, newest first",
        parameters=[
            OpenApiParameter("trace_id", str, description="The trace with this trace id, 32 hexadecimal digits.")
        ],
        responses=TelemetryTraceSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        traces = traces_for_list(self.member)
        if trace_id := request.query_params.get("trace_id"):
            traces = traces.filter(trace_id=trace_id.lower()) if is_storable(trace_id) else traces.none()
        return self.page_of(traces, TelemetryTraceSerializer)


class TraceView(MemberView):
    """One trace."""

    needs = Role.RESEARCHER

    @extend_schema(operation_id="traces_read", summary="Read the state of a trace", responses=TelemetryTraceSerializer)
    def get(self, request: Request, trace_id: UUID) -> Response:
        return Response(TelemetryTraceSerializer(get_object_or_404(traces_for_list(self.member), pk=trace_id)).data)
