"""Who speaks in a message and what is said, whatever a log or a data set calls the two.

`{"from": "gpt", "value": …}`, `{"type": "ai", "content": …}`, `{"role": "ai", "text": …}` and the items of OpenAI's Responses become
messages with `role` and `content`.
"""

from __future__ import annotations

from apps.ingest.normalization.fields import first_of
from apps.ingest.normalization.parts import in_parts
from apps.ingest.records import Json, Message
from contract.messages import ROLES

WRAPPED = frozenset({"type", "parts", "toolInvocations"})
"""Keys of messages whose words may lie elsewhere, too."""
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
    **dict.fromkeys(("custom_tool_call_output", "computer_call_output", "local_shell_call_output"), "tool"),
    **dict.fromkeys(("function_call", "tool_call", "custom_tool_call"), CALL),
    **dict.fromkeys(("web_search_call", "file_search_call", "code_interpreter_call"), CALL),
    **dict.fromkeys(("computer_call", "local_shell_call", "mcp_call"), CALL),
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
ANSWERED = ("outputs", "results", "output")
"""Where an item of the Responses keeps what a tool that is built in answered."""
OF_ITEM = frozenset(
    {"role", "id", "call_id", "tool_call_id", "name", "status", "pending_safety_checks", "container_id", *ANSWERED}
)
"""What an item says besides what its call does."""


def role_of(message: Json) -> str:
    """The role of whoever speaks, `function_call` or `reasoning`; "" where this is no message of anybody known."""
    if type(message) is not dict or ("message" in message and _key(message) == "type"):
        return ""  # an event about a message, perhaps
    message = _unwrapped(message)
    return SPEAKERS.get(_plain(message.get(_key(message))), "")


def spelled(message: Message) -> Message:
    """The message with `role` and `content`; as it is where nobody known speaks."""
    given = message.get("role")
    if type(given) is str and given in ROLES and type(message.get("content")) is str and not WRAPPED & message.keys():
        return message  # as most are
    message = in_parts(_unwrapped(message))
    key, role = _key(message), role_of(message)
    if not role:
        return {**message, "role": message[key]} if key == "from" and type(message[key]) is str else message
    is_plain = key == "role" and role == message["role"] and message.get("type") != "message"
    if is_plain and message.get("content") is not None:
        return message
    found: Message = {name: value for name, value in message.items() if name not in (key, "type") or value is None}
    found["role"] = role
    if role == CALL and key == "type":
        found = _named(found, message["type"])
    if message.get("content") is None:
        place = next((name for name in SPOKEN.get(role, OFTEN) if message.get(name) is not None), None)
        if place or role in (CALL, REASONING):
            found["content"] = found.pop(place or "content", None)
    return found


def _unwrapped(message: Message) -> Message:
    """A message of LangChain out of the wrapping that it is stored in."""
    kind, inside = message.get("type"), message.get("data")
    if type(kind) is str and type(inside) is dict and "content" in inside and "content" not in message:
        return {**inside, "type": kind}
    names, inside = message.get("id"), message.get("kwargs")
    if kind == "constructor" and type(names) is list and names and type(inside) is dict:
        return {**inside, "type": names[-1]}
    return message


def _named(call: Message, kind: str) -> Message:
    """A call among the items of OpenAI's Responses. A tool that is built in has its type for a name, and what it does beside it."""
    answered = first_of(call, *ANSWERED)
    arguments = call.get("arguments")
    if arguments is None:
        plain = {key: value for key, value in call.items() if key not in OF_ITEM and value is not None}
        given = first_of(call, "args", "parameters", "input")
        arguments = {"input": given} if type(given) is str else given or call.get("action") or plain
    name = call.get("name") or kind.removesuffix("_call")
    made: Message = {"role": CALL, "name": name, "arguments": arguments}
    made |= {key: call[key] for key in ("call_id", "tool_call_id", "id", "content", "value", "text") if key in call}
    return made if answered is None else {**made, "answered": answered}


def _key(message: Message) -> str:
    return next((key for key in ("role", "from") if message.get(key) is not None), "type")


def _plain(name: Json) -> str:
    """A speaker's name without its case and its hyphens: `Function-Call`, `AIMessage`."""
    if type(name) is not str:
        return ""
    return name.lower().replace("-", "_").removesuffix("chunk").removesuffix("message")
