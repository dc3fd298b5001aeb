"""The page of traces: what has arrived, and the resulting trajectories."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.traces.asgi import PATH
from apps.traces.queries import traces_for_list

VARIABLES = """export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={url}
export OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_TRACES_HEADERS="Authorization=Bearer%20$RETRACE_TOKEN\""""


@require_safe
@at_least(Role.RESEARCHER)
def traces(request: HtmxRequest) -> HttpResponse:
    """All traces, newest first; if there are none, how to send them."""
    page = page_of(traces_for_list(request.member), cursor=request.GET.get("cursor", ""), size=30)
    variables = VARIABLES.format(url=request.build_absolute_uri(PATH))
    return render(request, "traces/traces.html", {"page": page, "variables": variables})
