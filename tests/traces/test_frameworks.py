"""Agents of two frameworks with their official instrumentation, each in its own virtual environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apps.accounts.models import Membership
from apps.traces.models import Trace
from apps.trajectories.models import Trajectory
from tests import factories
from tests.gateway.upstream import Upstream, calls, says
from tests.traces.conftest import settle

PYDANTIC_AI = """
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
agent = Agent(OpenAIChatModel("served"), system_prompt="Be brief.")


@agent.tool_plain
def look(at: str) -> str:
    "Look at a place."
    return f"a lamp on the {at}"


print(agent.run_sync("Where is the lamp?").output)
provider.shutdown()
"""
OPENAI_AGENTS = """
import os

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)


@function_tool
def look(at: str) -> str:
    "Look at a place."
    return f"a lamp on the {at}"


model = OpenAIChatCompletionsModel(model="served", openai_client=AsyncOpenAI())
agent = Agent(name="finder", instructions="Be brief.", model=model, tools=[look])
print(Runner.run_sync(agent, "Where is the lamp?").final_output)
provider.shutdown()
"""
EXPORTER = "opentelemetry-exporter-otlp-proto-http==1.45.2"
FRAMEWORKS = {
    "pydantic-ai": (["pydantic-ai-slim[openai]==2.68.0"], PYDANTIC_AI),
    "openai-agents": (["openai-agents==0.24.0", "openinference-instrumentation-openai-agents==2.6.0"], OPENAI_AGENTS),
}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_a_framework_records_becomes_the_chat_that_it_had(
    traces_url: str, researcher: Membership, tmp_path: Path, framework: str
) -> None:
    packages, program = FRAMEWORKS[framework]
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", EXPORTER, *packages], check=True, timeout=600)
    with Upstream(calls("look", '{"at": "shelf"}'), says("On the shelf.")) as upstream:
        environment = {
            "PATH": os.environ["PATH"],
            "OPENAI_BASE_URL": upstream.url,
            "OPENAI_API_KEY": "none",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": traces_url,
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"Authorization=Bearer%20{factories.token(researcher)}",
        }
        done = subprocess.run(
            [str(python), "-c", program], env=environment, capture_output=True, text=True, timeout=200
        )
    assert (done.returncode, done.stdout) == (0, "On the shelf.\n"), done.stderr
    settle()
    assert [trace.problem for trace in Trace.objects.all()] == [""]
    trajectory = Trajectory.objects.get()
    first, last = trajectory.steps.order_by("index")
    assert [(message["role"], message["content"]) for message in first.context] == [
        ("system", "Be brief."),
        ("user", "Where is the lamp?"),
    ]
    assert first.message["tool_calls"][0]["function"]["name"] == "look"
    assert [(message["role"], message["content"]) for message in last.context] == [("tool", "a lamp on the shelf")]
    assert last.message["content"] == "On the shelf."
