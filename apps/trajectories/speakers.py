"""Who speaks in a message and what is said, whatever a log or a data set calls the two.

`{"from": "gpt", "value": …}`, `{"type": "ai", "content": …}`, `{"role": "ai", "text": …}` and the items of OpenAI's Responses become
messages with `role` and `content`.
"""

from __future__ import annotations

from apps.trajectories.records import Json, Message

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
CALL = "function_call"
REASONING = "reasoning"

SPEAKERS = {
    **dict.fromkeys(("human", "user", "environment"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "model", "ai", "bot", "agent"), "assistant"),
    **dict.fromkeys(("observation", "tool", "function", "ipython"), "tool"),
    **dict.fromkeys(
        ("function_response", "tool_response", "tool_result", "tool_output", "function_call_output"), "tool"
    ),
    "system": "system",
    "developer": "developer",
    **dict.fromkeys(("function_call", "tool_call"), CALL),
    "reasoning": REASONING,
}
"""What speakers are called, and the role that this is. Calls and reasoning of their own are parts of an assistant's turn."""

SPOKEN = {
    "system": ("value", "text", "system_prompt"),
    "tool": ("value", "text", "output", "result"),
    REASONING: ("value", "text", "summary"),
}
"""Where what is said stands when it is not under `content`; for other roles `OFTEN`."""
OFTEN = ("value", "text")


def role_of(message: Json) -> str:
    """The role of whoever speaks, `function_call` or `reasoning`; "" where this is no message of anybody known."""
    if type(message) is not dict or ("message" in message and _key(message) == "type"):
        return ""  # an event about a message, perhaps
    return SPEAKERS.get(_plain(message.get(_key(message))), "")


def spelled(message: Message) -> Message:
    """The message with `role` and `content`; as it is where nobody known speaks."""
    key, role = _key(message), role_of(message)
    if not role:
        return {**message, "role": message[key]} if key == "from" and type(message[key]) is str else message
    is_plain = key == "role" and role == message["role"] and message.get("type") != "message"
    if is_plain and message.get("content") is not None:
        return message
    found: Message = {name: value for name, value in message.items() if name not in (key, "type") or value is None}
    found["role"] = role
    if message.get("content") is None:
        place = next((name for name in SPOKEN.get(role, OFTEN) if message.get(name) is not None), "content")
        found["content"] = found.pop(place, None)
    return found


def _key(message: Message) -> str:
    return next((key for key in ("role", "from") if message.get(key) is not None), "type")


def _plain(name: Json) -> str:
    """A speaker's name without its case and its hyphens: `Function-Call`, `AIMessage`."""
    return name.lower().replace("-", "_").removesuffix("message") if type(name) is str else ""
