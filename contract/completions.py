"""Converts messages between OpenAI's chat completions, where call arguments are text, and trajectories, where they're objects."""

import json
from typing import Any

from contract import jsontext
from contract.messages import ROLES, Message
from contract.values import Json

ROLE_NAMES = {"function": "tool", "model": "assistant"}


def for_wire(message: Message) -> Message:
    """The message in the protocol's form, with arguments as text."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        calls.append({**call, "function": {**call["function"], "arguments": text}})
    return {**message, "tool_calls": calls}


def message_from(wire: dict[str, Any]) -> Message:
    """Decodes arguments that are a JSON object; others stay as the policy wrote them, for the environment to refuse.

    Raises AttributeError or TypeError if it isn't a message.
    """
    content = wire.get("content") or wire.get("refusal") or ""  # a model that refuses says so there instead
    message: Message = {"role": "assistant", "content": content if are_parts(content) else text_of(content)}
    if reasoning := wire.get("reasoning_content") or wire.get("reasoning"):
        message["reasoning_content"] = text_of(reasoning)
    if calls := calls_in(wire):
        message["tool_calls"] = [call_from(call) for call in calls]
    return message


def calls_in(wire: dict[str, Any]) -> Any:
    """The tool calls of a message as its server sent them, the only one of the legacy `function_call` included."""
    legacy = wire.get("function_call")
    return wire.get("tool_calls") or ([{"function": legacy}] if legacy else [])


def are_parts(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(part, dict) for part in content)


def text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def call_from(wire: dict[str, Any]) -> dict[str, Any]:
    function = called_in(wire)
    return {
        "id": str(wire.get("id") or ""),
        "type": "function",
        "function": {
            "name": text_of(function.get("name") or ""),
            "arguments": arguments_of(function.get("arguments") or function.get("input")),
        },
    }


def called_in(call: dict[str, Any]) -> Any:
    """The name and the arguments of a call's tool. A custom tool takes text, as `input`."""
    return call.get("function") or call.get("custom") or {}


def arguments_of(wire: Any) -> Any:
    """Decodes arguments that are the JSON text of an object; anything else is returned unchanged."""
    arguments = wire or "{}"
    try:
        decoded = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(decoded, dict) or (isinstance(arguments, str) and jsontext.is_text_too_deep(arguments, decoded)):
        return arguments
    return decoded


def written(wire: dict[str, Json]) -> Message:
    """The policy's message as a server or an agent reported it, without losing any field."""
    try:
        return message_from(wire)
    except (AttributeError, TypeError):  # a server's nonstandard message
        return {"role": "assistant", "content": jsontext.dumps(wire).decode()}


def context_message(wire: dict[str, Json]) -> Message:
    """A message that the agent sent, in trajectory form. Servers accept several roles and shapes; no field is lost."""
    role = str(wire.get("role") or "user")
    role = ROLE_NAMES.get(role, role)
    if role == "assistant":
        return written(wire)
    content = wire.get("content")
    if not (content is None or isinstance(content, str) or are_parts(content)):
        content = jsontext.dumps(content).decode()
    message: Message = {"role": role if role in ROLES else "user", "content": content}
    return message | {name: wire[name] for name in ("tool_call_id", "name") if isinstance(wire.get(name), str)}
