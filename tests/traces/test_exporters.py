"""Exporters of OpenTelemetry's real SDK, sending to the running endpoint."""

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import StatusCode

from apps.accounts.models import Membership
from apps.traces.export_request import unpacked
from apps.traces.models import Span, Trace
from apps.trajectories.models import Trajectory
from contract import jsontext
from tests import factories
from tests.traces.conftest import settle

ASKED = '[{"role": "user", "parts": [{"type": "text", "content": "Weather in Oslo?"}]}]'
CALLED = (
    '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "weather",'
    ' "arguments": {"city": "Oslo"}}], "finish_reason": "tool_call"}]'
)


def gen_ai(tracer: Any) -> None:
    """OpenTelemetry's conventions since version 1.37: messages as attributes."""
    with tracer.start_as_current_span("chat tiny") as span:
        span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny"})
        span.set_attributes({"gen_ai.input.messages": ASKED, "gen_ai.output.messages": CALLED})
    with tracer.start_as_current_span("execute_tool weather") as span:
        span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"})
        span.set_attributes({"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "rain"})


def gen_ai_event(tracer: Any) -> None:
    """Messages in the event that the conventions define for them."""
    with tracer.start_as_current_span("chat tiny") as span:
        span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny"})
        messages = {"gen_ai.input.messages": ASKED, "gen_ai.output.messages": CALLED}
        span.add_event("gen_ai.client.inference.operation.details", messages)
    with tracer.start_as_current_span("execute_tool weather") as span:
        span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"})
        span.set_attributes({"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "rain"})


def gen_ai_events(tracer: Any) -> None:
    """The first version of the conventions: one event per message."""
    with tracer.start_as_current_span("chat tiny") as span:
        span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny"})
        span.add_event("gen_ai.user.message", {"content": "Weather in Oslo?"})
        call = '[{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}]'
        span.add_event("gen_ai.choice", {"index": 0, "message": f'{{"role": "assistant", "tool_calls": {call}}}'})
    with tracer.start_as_current_span("weather") as span:
        span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"})
        span.set_attributes({"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "rain"})


def openinference(tracer: Any) -> None:
    with tracer.start_as_current_span("ChatCompletion") as span:
        span.set_attributes({"openinference.span.kind": "LLM", "llm.model_name": "tiny"})
        span.set_attribute("llm.input_messages.0.message.role", "user")
        span.set_attribute("llm.input_messages.0.message.content", "Weather in Oslo?")
        answer = "llm.output_messages.0.message"
        span.set_attribute(f"{answer}.role", "assistant")
        call = f"{answer}.tool_calls.0.tool_call"
        span.set_attributes({f"{call}.id": "c1", f"{call}.function.name": "weather"})
        span.set_attribute(f"{call}.function.arguments", '{"city": "Oslo"}')
    with tracer.start_as_current_span("weather") as span:
        span.set_attributes({"openinference.span.kind": "TOOL", "tool.name": "weather", "output.value": "rain"})


def openllmetry(tracer: Any) -> None:
    with tracer.start_as_current_span("openai.chat") as span:
        span.set_attributes({"llm.request.type": "chat", "gen_ai.request.model": "tiny"})
        span.set_attributes({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Weather in Oslo?"})
        span.set_attribute("gen_ai.completion.0.role", "assistant")
        call = "gen_ai.completion.0.tool_calls.0"
        span.set_attributes({f"{call}.id": "c1", f"{call}.name": "weather", f"{call}.arguments": '{"city": "Oslo"}'})
    with tracer.start_as_current_span("weather.tool") as span:
        span.set_attributes({"traceloop.span.kind": "tool", "traceloop.entity.name": "weather"})
        span.set_attribute("traceloop.entity.output", "rain")


def exporting(url: str, token: str, **more: Any) -> TracerProvider:
    exporter = OTLPSpanExporter(endpoint=url, headers={"Authorization": f"Bearer {token}"}, timeout=20, **more)
    provider = TracerProvider(resource=Resource.create({"service.name": "forecast"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
@pytest.mark.parametrize("instrumented", [gen_ai, gen_ai_event, gen_ai_events, openinference, openllmetry])
def test_every_vocabulary_arrives_as_the_same_trajectory(
    traces_url: str, researcher: Membership, instrumented: Any, compression: Compression
) -> None:
    provider = exporting(traces_url, factories.token(researcher), compression=compression)
    tracer = provider.get_tracer("a framework")
    with tracer.start_as_current_span("agent"):
        instrumented(tracer)
    provider.shutdown()
    assert Trace.objects.get().has_root
    settle()
    trajectory = Trajectory.objects.get()
    [step] = trajectory.steps.all()
    assert [message["content"] for message in step.context] == ["Weather in Oslo?"]
    [call] = step.message["tool_calls"]
    assert (call["id"], call["function"]["name"]) == ("c1", "weather")
    arguments = call["function"]["arguments"]
    assert (jsontext.parse(arguments) if isinstance(arguments, str) else arguments) == {"city": "Oslo"}
    assert [message["content"] for message in trajectory.closing] == ["rain"]
    assert trajectory.info["trace"]["service"] == "forecast"


def test_what_a_span_says_is_kept_as_it_was(traces_url: str, researcher: Membership) -> None:
    provider = exporting(traces_url, factories.token(researcher))
    with provider.get_tracer("a framework", "1.2").start_as_current_span("odd") as span:
        span.set_attributes({"text": "\x00é", "whole": -3, "real": 0.5, "not": float("nan"), "is": True})
        span.set_attribute("many", ["a", "b"])
        span.set_status(StatusCode.ERROR, "It broke.")
        span.add_event("seen", {"at": 1})
    provider.shutdown()
    [stored] = Span.objects.all()
    record = jsontext.loads(unpacked(stored.body))
    attributes = {attribute["key"]: attribute["value"] for attribute in record["attributes"]}
    assert attributes == {
        "text": {"stringValue": "\x00é"},
        "whole": {"intValue": "-3"},
        "real": {"doubleValue": 0.5},
        "not": {"doubleValue": "nan"},
        "is": {"boolValue": True},
        "many": {"arrayValue": {"values": [{"stringValue": "a"}, {"stringValue": "b"}]}},
    }
    assert record["status"] == {"code": 2, "message": "It broke."}
    assert [event["name"] for event in record["events"]] == ["seen"]


def test_an_exporter_of_an_outsider_brings_nothing(traces_url: str, researcher: Membership) -> None:
    provider = exporting(traces_url, "rt_unknown")
    with provider.get_tracer("a framework").start_as_current_span("agent"):
        pass
    provider.shutdown()
    assert not Trace.objects.exists()
