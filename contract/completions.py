"""The messages of OpenAI's chat completions, and as trajectories hold them: arguments of calls are text there and objects here."""

import json
from typing import Any

from contract import jsontext
from contract.messages import ROLES, Message
from contract.values import Json

ROLE_NAMES = {"function": "tool", "model": "assistant"}


def for_wire(message: Message) -> Message:
    """As the protocol wants it: arguments are text there."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        calls.append({**call, "function": {**call["function"], "arguments": text}})
    return {**message, "tool_calls": calls}


def message_from(wire: dict[str, Any]) -> Message:
    """Arguments that are a JSON object become one; others stay as the policy wrote them, for the environment to refuse.

    Raises AttributeError or TypeError where it is no message.
    """
    content = wire.get("content") or ""
    message: Message = {"role": "assistant", "content": content if isinstance(content, list) else text_of(content)}
    if reasoning := wire.get("reasoning_content") or wire.get("reasoning"):
        message["reasoning_content"] = text_of(reasoning)
    if wire.get("tool_calls"):
        message["tool_calls"] = [call_from(call) for call in wire["tool_calls"]]
    return message


def text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def call_from(wire: dict[str, Any]) -> dict[str, Any]:
    function = wire.get("function") or {}
    return {
        "id": str(wire.get("id") or ""),
        "type": "function",
        "function": {
            "name": text_of(function.get("name") or ""),
            "arguments": arguments_of(function.get("arguments")),
        },
    }


def arguments_of(wire: Any) -> Any:
    """The object that arguments are the JSON text of; what is no object's text stays as it is."""
    arguments = wire or "{}"
    try:
        decoded = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(decoded, dict) or (isinstance(arguments, str) and jsontext.is_text_too_deep(arguments, decoded)):
        return arguments
    return decoded


def written(wire: dict[str, Json]) -> Message:
    """What a policy said, as a server or an agent tells it; nothing of it is lost."""
    try:
        return message_from(wire)
    except (AttributeError, TypeError):  # some server's own idea of a message
        return {"role": "assistant", "content": jsontext.dumps(wire).decode()}


def context_message(wire: dict[str, Json]) -> Message:
    """A message that the agent sent, in the form of trajectories. Servers take more than one role and shape; nothing of it is lost."""
    role = str(wire.get("role") or "user")
    role = ROLE_NAMES.get(role, role)
    if role == "assistant":
        return written(wire)
    content = wire.get("content")
    if not (content is None or isinstance(content, str)) and not (
        isinstance(content, list) and all(isinstance(part, dict) for part in content)
    ):
        content = jsontext.dumps(content).decode()
    message: Message = {"role": role if role in ROLES else "user", "content": content}
    return message | {name: wire[name] for name in ("tool_call_id", "name") if isinstance(wire.get(name), str)}
