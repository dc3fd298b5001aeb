"""The messages in a model call's recorded input and output, in the forms of many frameworks.

Supported: OpenAI chats and Responses, Anthropic, Gemini, LangChain, the Vercel AI SDK, and OpenTelemetry's parts, alone or wrapped in their
request or response, as values or as JSON text. Output messages have only the keys of chat messages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from apps.common.nested_json import Unreadable, decode_result
from apps.ingest.normalization.conversation import tool_schemas
from apps.ingest.normalization.fields import first_of, mapping, text
from apps.ingest.normalization.parts import call_of, result_of, turns_in
from apps.ingest.normalization.roles import normalized, role_of
from apps.ingest.records import Json, Message
from contract import jsontext

KEPT = frozenset(
    {
        *("role", "content", "name", "refusal", "tool_calls", "function_call", "tool_call_id", "is_error"),
        *("reasoning_content", "reasoning", "thinking"),
        *("type", "call_id", "arguments", "output", "summary"),  # of the Responses' items
    }
)
"""Keys of messages and of Responses items; all others are recording metadata."""
LISTS = ("messages", "input", "contents", "prompt", "args", "output", "items")
"""Keys under which a request or a response keeps its messages."""
MAX_WRAPPINGS = 6
MAX_ENCODINGS = 3
NOTHING = {"content": "role"}
"""How one widely used exporter writes an empty prompt."""


class Payload(NamedTuple):
    """The messages, and the tools offered with them."""

    messages: list[Message]
    tools: list[Json]


def read_payload(entry: Json, role: str) -> Payload:
    """The messages of an input or an output; `role` is the default role."""
    builder = _PayloadBuilder(role)
    builder.add(entry)
    return Payload(builder.messages, builder.tools)


def tools_offered(entry: Json) -> list[Json]:
    """Schemas of tools; Gemini's are lists of declarations."""
    schemas = tool_schemas(entry or [])
    declared = [first_of(mapping(schema), "function_declarations", "functionDeclarations") for schema in schemas]
    return [tool for declarations in declared for tool in tool_schemas(declarations)] if any(declared) else schemas


class _PayloadBuilder:
    def __init__(self, role: str) -> None:
        self.role = role
        self.messages: list[Message] = []
        self.tools: list[Json] = []

    def add(self, entry: Json, depth: int = 0) -> None:
        value = decoded(entry)
        if value is None:
            return
        if depth > MAX_WRAPPINGS:
            self._add_text(text(value))
        elif type(value) is str:
            self._add_text(value)
        elif type(value) is list:
            self._add_list(value, depth)
        elif type(value) is dict:
            self._add_object(value, depth)
        else:
            self._add_text(text(value))

    def _add_list(self, values: list[Json], depth: int) -> None:
        if len(values) == 1 and type(values[0]) is list:  # LangChain: a batch of one
            values = values[0]
        if values and all(_is_part(value) for value in values):
            self._message({"role": self.role, "content": values})
            return
        for value in values:
            self.add(value, depth + 1)

    def _add_object(self, value: dict[str, Any], depth: int) -> None:
        inner = _unwrapped(value)
        if inner is not None:
            self.add(inner, depth + 1)
        elif role_of(value):
            self._message(value)
        elif type(value.get("parts")) is list or "toolCallId" in value:
            self._message({**value, "role": self.role} if "parts" in value else {"role": self.role, "content": [value]})
        elif any(value.get(key) for key in LISTS):
            self._add_request(value, depth)
        elif type(value.get("content")) is list:
            self._message({"role": self.role, "content": value["content"]})
        elif value != NOTHING:
            content = first_of(value, "content", "text")
            self._add_text(text(value if content is None else content))

    def _add_request(self, value: dict[str, Any], depth: int) -> None:
        """Take a request's or a response's messages."""
        config = mapping(value.get("config"))
        system = first_of(value, "system", "instructions", "system_instruction") or config.get("system_instruction")
        key = next(key for key in LISTS if value.get(key))
        if system and key != "output":
            messages = read_payload(system, "system").messages
            self.messages += [{**message, "role": "system"} for message in messages]
        self.tools += tools_offered(first_of(value, "tools") or config.get("tools"))
        self.add(value[key], depth + 1)

    def _add_text(self, content: str) -> None:
        if content.strip():
            self.messages.append({"role": self.role, "content": content})

    def _message(self, entry: Message) -> None:
        message = normalized(entry)
        content = decoded(message.get("content")) if message["role"] == "tool" else message.get("content")
        if message["role"] == "tool" and mapping(content).get("type") == "function" and "function" in mapping(content):
            self.tools += tool_schemas([content])  # how LangChain's callbacks record tool schemas
            return
        calls = message.get("tool_calls") or mapping(message.get("additional_kwargs")).get("tool_calls")
        fields: Message = {key: value for key, value in message.items() if key in KEPT and value is not None}
        fields.setdefault("content", None)
        if calls:
            fields["tool_calls"] = calls
        parts = first_of(message, "parts") or message.get("content")
        only_text = parts[0].get("text") if type(parts) is list and len(parts) == 1 and _is_part(parts[0]) else parts
        parted = _parted(only_text) if fields["role"] == "assistant" and type(only_text) is str else None
        if parted:
            answer, answered = parted
            self.messages += [{**fields, "content": answer}, {"role": "user", "content": answered}]
        elif type(parts) is list:
            self.messages += _of_parts(fields, parts)
        else:
            self.messages.append(fields)


def _of_parts(message: Message, parts: list[Json]) -> list[Message]:
    """Splits a message whose content is parts: tool results become separate messages, and an answer ends where one interrupted it."""
    if message["role"] != "assistant" or not any(result_of(part) for part in parts):
        return _with_results_apart(message, parts)
    messages: list[Message] = []
    for turn in turns_in({**message, "content": parts}):
        messages += [turn] if turn["role"] == "tool" else _with_results_apart(turn, turn["content"])
    return messages


def _with_results_apart(message: Message, parts: list[Json]) -> list[Message]:
    content: list[Json] = []
    results: list[Message] = []
    calls: list[Json] = []
    for entry in parts:
        part = mapping(entry)
        call = call_of(part)
        if call is not None:
            calls.append(call)
        elif (result := result_of(part)) is not None:
            results.append(result)
        elif part.get("thought") is True and type(part_text := part.get("text")) is str:  # Gemini
            content.append({"type": "reasoning", "text": part_text})
        elif data := mapping(first_of(part, "inlineData", "inline_data")):
            kind = text(first_of(data, "mimeType", "mime_type"))
            content.append({"type": "image_url", "image_url": {"url": f"data:{kind};base64,{text(data.get('data'))}"}})
        elif part.get("type") in ("text", None) and type(part_text := first_of(part, "text", "content")) is str:
            content.append({"type": "text", "text": part_text})
        elif part.get("type") == "reasoning" and type(part_text := first_of(part, "content", "text")) is str:
            content.append({"type": "reasoning", "text": part_text})
        else:
            content.append(entry)
    if calls:
        message_calls = message.get("tool_calls")
        message = {**message, "tool_calls": [*(message_calls if type(message_calls) is list else ()), *calls]}
    if results and not (content or calls):
        return results
    return [*results, {**message, "content": content if content or not calls else None}]


def _unwrapped(value: dict[str, Any]) -> Json:
    """The content of a wrapper; None if the value isn't one."""
    if type(value.get("message")) in (dict, list) and not role_of(value):
        return value["message"]
    for key in ("choices", "candidates", "generations"):
        if type(value.get(key)) is list and value[key]:
            first = value[key][0]
            return first[0] if key == "generations" and type(first) is list and first else first
    if type(value.get("kwargs")) is dict and type(value.get("id")) is list and value["id"]:  # LangChain, serialized
        return {"type": value["id"][-1], **value["kwargs"]}
    if type(value.get("content")) is dict and "parts" in value["content"]:  # Gemini
        return value["content"]
    if type(value.get("response")) is dict and "output" in value["response"]:
        return value["response"]
    return None


def _is_part(value: Json) -> bool:
    """Whether the value is a message part rather than a message."""
    kind = mapping(value).get("type")
    return not role_of(value) and (
        kind in ("text", "tool_use", "tool-call", "thinking") or "toolCallId" in mapping(value)
    )


def decoded(entry: Json) -> Json:
    """The value of JSON text, including doubly encoded JSON and Python literals; other text unchanged."""
    for _ in range(MAX_ENCODINGS):
        if type(entry) is not str or entry.lstrip()[:1] not in ("{", "[", '"'):
            break
        try:
            entry = decode_result(entry) if entry.startswith(("{'", "[{'")) else jsontext.parse(entry)
        except (jsontext.UnreadableJSON, Unreadable):
            break
    return entry


def _parted(content: str) -> tuple[str, str] | None:
    """Splits an agent message in which BeeAI embeds a function's output: the agent's own text, and the output.

    No regex: one with three gaps takes minutes on a text that repeats its keywords a thousand times.
    """
    lines = f"\n{content}"
    entry = lines.rfind("\nFunction Input:", 0, max(0, lines.rfind("\nFunction Output:")))
    if entry < 0 or lines.find("\nFunction Name:", 0, entry) < 0:
        return None
    answered = lines.index("\nFunction Output:", entry)
    return lines[1:answered], lines[answered + 1 :]
