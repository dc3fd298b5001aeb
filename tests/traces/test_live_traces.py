"""An agent configured only by OpenTelemetry's environment variables, sending traces to the running product."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from apps.accounts.models import Role
from apps.traces.models import Trace
from apps.trajectories.models import Trajectory
from tests import factories
from tests.live import LiveStack

AGENT = """
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("agent")
with tracer.start_as_current_span("agent"), tracer.start_as_current_span("chat tiny") as span:
    said = '[{"role": "%s", "parts": [{"type": "text", "content": "%s"}]}]'
    span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny"})
    span.set_attributes({"gen_ai.input.messages": said % ("user", "Where is the lamp?")})
    span.set_attributes({"gen_ai.output.messages": said % ("assistant", "On the shelf.")})
provider.shutdown()
"""


def test_what_an_agent_sends_becomes_a_trajectory_by_itself(live_stack: LiveStack) -> None:
    member = factories.member(Role.RESEARCHER)
    environment = {
        **os.environ,
        "OTEL_SERVICE_NAME": "finder",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{live_stack.url}/v1/traces",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"Authorization=Bearer%20{factories.token(member)}",
    }
    done = subprocess.run([sys.executable, "-c", AGENT], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    trace = Trace.objects.get()
    assert (trace.workspace, trace.service, trace.span_count) == (member.workspace, "finder", 2)
    deadline = time.monotonic() + 200
    while not (trajectory := Trajectory.objects.visible_to(member).first()) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert trajectory is not None, Trace.objects.values()
    assert trajectory.steps.get().message["content"] == "On the shelf."
