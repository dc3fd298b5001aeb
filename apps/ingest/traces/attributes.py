"""OpenTelemetry spans as model and tool calls, derived from their attributes.

Four conventions are read: OpenTelemetry's own for generative AI (`gen_ai.input.messages`, and the events and indexed attributes of its earlier
versions, which OpenLLMetry writes too), OpenInference (`llm.input_messages.0.message.role`), the Vercel AI SDK (`ai.prompt.messages`), and MLflow
(`mlflow.spanInputs`).
"""

from __future__ import annotations

import re
from typing import Any, Literal

from apps.ingest.normalization.fields import count, first_of, mapping, text
from apps.ingest.records import Json, Message
from apps.ingest.traces.payloads import decoded, tools_offered
from apps.ingest.traces.threads import Span

Attributes = dict[str, Json]
MODEL_OPERATIONS = frozenset({"chat", "text_completion", "generate_content", "completion", "message", "response"})
MODEL_KINDS = frozenset({"llm", "chat", "chat_model", "completion"})
INPUTS, OUTPUTS = "mlflow.spanInputs", "mlflow.spanOutputs"
GIVEN = ("gen_ai.input.messages", "ai.prompt.messages", "ai.prompt", "input.value", "traceloop.entity.input", INPUTS)
ANSWERED = (
    "output.value",
    "traceloop.entity.output",
    OUTPUTS,
)
ARGUMENTS_OF_TOOL = (
    "gen_ai.tool.call.arguments",
    "ai.toolCall.args",
    "input.value",
    "traceloop.entity.input",
    INPUTS,
)
RESULT_OF_TOOL = ("gen_ai.tool.call.result", "ai.toolCall.result", "output.value", "traceloop.entity.output", OUTPUTS)
KINDS = ("openinference.span.kind", "traceloop.span.kind", "llm.request.type", "mlflow.spanType")
MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id", "mlflow.llm.model")
NAME_OF_TOOL = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
CALL_ID = ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id")
WHOLE = re.compile(r"-?\d{1,20}")
DETAILS = "gen_ai.client.inference.operation.details"
"""The event that holds a call's messages if its span doesn't."""
ROLES_OF_EVENTS = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}


def span_of(
    attributes: Attributes,
    events: list[tuple[str, Attributes]],
    *,
    id: str,
    parent: str,
    name: str,
    start: float,
    end: float | None,
    error: str | None,
) -> Span:
    """Builds a span; `events` are names and attributes, times are in seconds since 1970."""
    for event, body in events:
        if event == DETAILS:
            attributes = {**body, **attributes}
    kind = kind_of(attributes)
    is_tool = kind == "tool"
    return Span(
        id=id,
        kind=kind,
        parent=parent,
        name=text(first_of(attributes, *NAME_OF_TOOL)) or name,
        start=start,
        end=end,
        model=text(first_of(attributes, *MODELS) or mapping(attributes.get(INPUTS)).get("model")),
        given=first_of(attributes, *ARGUMENTS_OF_TOOL) if is_tool else _input_messages(attributes, events),
        answer=first_of(attributes, *RESULT_OF_TOOL) if is_tool else _answer(attributes, events),
        tools=_tools(attributes),
        call_id=text(first_of(attributes, *CALL_ID)),
        prompt_tokens=_tokens(attributes, "input_tokens", "prompt_tokens", "llm.token_count.prompt"),
        completion_tokens=_tokens(attributes, "output_tokens", "completion_tokens", "llm.token_count.completion"),
        error=error,
    )


def kind_of(attributes: Attributes) -> Literal["model", "tool", "other"]:
    """Whether the span is a model call, a tool call, or neither."""
    operation = text(attributes.get("gen_ai.operation.name"))
    kind = text(first_of(attributes, *KINDS)).lower()
    sdk = text(attributes.get("ai.operationId"))
    if operation == "execute_tool" or kind == "tool" or sdk == "ai.toolCall":
        return "tool"
    if operation in MODEL_OPERATIONS or kind in MODEL_KINDS or sdk.endswith((".doGenerate", ".doStream")):
        return "model"
    # Before operation names existed, model calls were recognizable by their requested model.
    return "model" if not (operation or kind or sdk) and "gen_ai.request.model" in attributes else "other"


def _input_messages(attributes: Attributes, events: list[tuple[str, Attributes]]) -> Json:
    system = attributes.get("gen_ai.system_instructions")
    entry = attributes.get("gen_ai.input.messages")
    if entry is not None:
        return {"system": system, "messages": entry}
    for prefix in ("gen_ai.prompt", "llm.input_messages"):
        if messages := _indexed(attributes, prefix):
            return messages
    messages = [_event_message(ROLES_OF_EVENTS[name], body) for name, body in events if name in ROLES_OF_EVENTS]
    return messages or first_of(attributes, *GIVEN)


def _answer(attributes: Attributes, events: list[tuple[str, Attributes]]) -> Json:
    if attributes.get("gen_ai.output.messages") is not None:
        return _first_choice(attributes["gen_ai.output.messages"])
    for prefix in ("gen_ai.completion", "llm.output_messages"):
        if messages := _indexed(attributes, prefix):
            return _first_choice(messages)
    choices = [body for name, body in events if name == "gen_ai.choice"]
    if choices:  # further ones are other answers to the same messages
        return _event_message("assistant", choices[0])
    calls = decoded(attributes.get("ai.response.toolCalls"))
    said = text(first_of(attributes, "ai.response.text", "ai.response.object"))
    if type(calls) is list:
        return [{"type": "text", "text": said}, *calls] if said else calls
    # As a message, since text that is JSON would be taken for a request or a response.
    return {"role": "assistant", "content": said} if said else first_of(attributes, *ANSWERED)


def _first_choice(answer: Json) -> Json:
    """The first of several answers to the same messages, of which each ended for its own reason; any other list is one answer."""
    messages = decoded(answer)
    if type(messages) is list and all(mapping(message).get("finish_reason") for message in messages):
        return messages[:1]
    return answer


def _event_message(role: str, body: Attributes) -> Message:
    """The message of an event, from its body or its attributes."""
    content = first_of(body, "content", "gen_ai.prompt", "gen_ai.completion", "gen_ai.event.content")
    message: Message = {"role": role, "content": content}
    message |= {key: body[key] for key in ("tool_calls", "id") if body.get(key)}
    message |= mapping(decoded(body.get("message")))
    if role == "tool" and message.get("id"):  # of the call
        message["tool_call_id"] = message["id"]
    return message


def _indexed(attributes: Attributes, prefix: str) -> list[Json]:
    """The messages under `prefix.0.role`, `prefix.0.tool_calls.0.name`, and so on; OpenInference wraps each in an extra level."""
    tree = nested(attributes, prefix)
    return [_message(mapping(message)) for message in tree] if type(tree) is list else []


def _message(entry: dict[str, Any]) -> Message:
    message = mapping(entry.get("message")) or entry
    calls = message.get("tool_calls")
    if type(calls) is list:
        message = {**message, "tool_calls": [mapping(call).get("tool_call", call) for call in calls]}
    parts = message.get("contents")
    if type(parts) is list and not message.get("content"):
        message = {**message, "content": [mapping(part).get("message_content", part) for part in parts]}
    return message


def nested(attributes: Attributes, prefix: str) -> Json:
    """The value encoded by attributes with dotted names: objects, and lists where all names are numbers. None if there are none."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if not name.startswith(f"{prefix}."):
            continue
        *path, last = name[len(prefix) + 1 :].split(".")
        node = tree
        for step in path:
            inner = node.setdefault(step, {})
            if type(inner) is not dict:
                break
            node = inner
        else:
            node[last] = value
    return _listed(tree) if tree else None


def _listed(tree: Json) -> Json:
    if type(tree) is not dict:
        return tree
    if tree and all(name.isdecimal() for name in tree):
        return [_listed(tree[name]) for name in sorted(tree, key=int)]
    return {name: _listed(value) for name, value in tree.items()}


def _tools(attributes: Attributes) -> list[Json]:
    entry = first_of(attributes, "gen_ai.tool.definitions", "ai.prompt.tools", "mlflow.chat.tools")
    if entry is None:
        entry = nested(attributes, "llm.request.functions")
    if entry is None:
        offered = nested(attributes, "llm.tools")
        entry = (
            [mapping(mapping(tool).get("tool")).get("json_schema") for tool in offered]
            if type(offered) is list
            else None
        )
    return tools_offered(entry)


def _tokens(attributes: Attributes, *names: str) -> int | None:
    value = first_of(attributes, *(f"gen_ai.usage.{name}" for name in names), *names)
    if value is None:
        value = first_of(mapping(attributes.get("mlflow.chat.tokenUsage")), *names)
    return count(int(value) if type(value) is str and value.isdecimal() else value)


def plain(entry: Json) -> Attributes:
    """Converts OTLP's list of keys and typed values to an object."""
    if type(entry) is dict:
        return entry
    pairs = (mapping(pair) for pair in entry) if type(entry) is list else ()
    return {text(pair.get("key")): _value(mapping(pair.get("value"))) for pair in pairs}


def _value(entry: dict[str, Any]) -> Json:
    kind, value = next(iter(entry.items()), ("", None))
    if kind == "intValue":  # 64 bits, so written as text
        written = str(value)
        return int(written) if WHOLE.fullmatch(written) else value
    if kind == "arrayValue":
        values = mapping(value).get("values")
        return [_value(mapping(item)) for item in values] if type(values) is list else []
    if kind == "kvlistValue":
        return plain(mapping(value).get("values"))
    return value
