"""Chat messages in trajectories and rows: OpenAI's format, plus `reasoning_content`."""

from __future__ import annotations

from typing import Any

from contract import jsontext
from contract.values import BadRow, Json, text

Message = dict[str, Any]
"""role, content, and, where they apply, reasoning_content, tool_calls, tool_call_id, name, weight (see `is_turn`)."""
ToolSchema = dict[str, Any]
"""{"type": "function", "function": {"name", "description", "parameters"}}"""

ROLES = ("system", "developer", "user", "assistant", "tool")
EXPECTED_ROLES = f"`role` is one of {', '.join(ROLES)} (or the older function)."
EXPECTED_CONTENT = '`content` is text, null, or a list of typed parts such as {"type": "text", "text": …}.'
EXPECTED_CALL = 'A tool call is {"id": …, "type": "function", "function": {"name": …, "arguments": …}}.'


def checked(message: Json, where: str) -> Message:
    """Returns the message unchanged. `where` locates it for errors, such as "step 3". Raises BadRow."""
    if type(message) is not dict:
        raise BadRow(
            f"A message of {where} is {jsontext.describe(message)}.",
            "Each message is an object with `role` and `content`.",
        )
    role = message.get("role")
    if type(role) is not str or role not in ROLES:
        raise BadRow(f"A message of {where} has the role “{text(role)[:60]}”.", EXPECTED_ROLES)
    content = message.get("content")
    is_sound = (
        type(content) is str
        or content is None
        or (type(content) is list and all(type(part) is dict for part in content))
    )
    if not is_sound:
        raise BadRow(f"A message of {where} has a `content` that is {jsontext.describe(content)}.", EXPECTED_CONTENT)
    return message


def text_of(content: Json, *, first: int | None = None) -> str:
    """The text of a message's content, whatever its shape; about the first `first` characters if given."""
    if type(content) is str:
        return content if first is None else content[:first]
    if type(content) is list:
        parts = (part.get("text") or f"[{part.get('type', 'part')}]" for part in content if type(part) is dict)
        text = "\n".join(part if type(part) is str else jsontext.dumps(part).decode() for part in parts)
        return text if first is None else text[:first]
    return ""


def is_turn(message: Message) -> bool:
    """Whether the policy wrote the message. Another's answer, such as one shown as an example, has OpenAI's mark `"weight": 0`."""
    return message["role"] == "assistant" and message.get("weight") != 0


def as_context(message: Message) -> Message:
    """The message as one that the policy didn't write."""
    return {**message, "weight": 0} if is_turn(message) else message


def are_calls(calls: Json) -> bool:
    """Whether this is a list of tool calls, each with the name of a function."""
    return type(calls) is list and all(
        type(call) is dict and type(call.get("function")) is dict and type(call["function"].get("name")) is str
        for call in calls
    )
