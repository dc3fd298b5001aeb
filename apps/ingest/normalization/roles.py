"""The role and content of a message, under any names that logs and data sets use for them.

`{"from": "gpt", "value": …}`, `{"type": "ai", "content": …}`, `{"role": "ai", "text": …}`, and items of OpenAI's Responses become
messages with `role` and `content`.
"""

from __future__ import annotations

from apps.ingest.normalization.fields import first_of
from apps.ingest.normalization.parts import in_parts
from apps.ingest.records import Json, Message
from contract.messages import ROLES

WRAPPED = frozenset({"type", "parts", "toolInvocations"})
"""Keys of messages whose text may be elsewhere, too."""
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
"""Speaker names and their roles. Separate calls and reasoning are parts of an assistant's turn."""

SPOKEN = {
    "system": ("value", "text", "system_prompt"),
    "tool": ("value", "text", "output", "result"),
    REASONING: ("value", "text", "summary"),
}
"""Keys that may hold the text instead of `content`; `OFTEN` for other roles."""
OFTEN = ("value", "text")
ANSWERED = ("outputs", "results", "output")
"""Keys of a built-in tool's results in a Responses item."""
OF_ITEM = frozenset(
    {"role", "id", "call_id", "tool_call_id", "name", "status", "pending_safety_checks", "container_id", *ANSWERED}
)
"""Keys of an item besides the arguments of its call."""


def role_of(message: Json) -> str:
    """A message's role, `function_call`, or `reasoning`; "" if it isn't a message with a known speaker."""
    if type(message) is not dict or ("message" in message and _key(message) == "type"):
        return ""  # possibly an event about a message
    message = _unwrapped(message)
    return SPEAKERS.get(_plain(message.get(_key(message))), "")


def normalized(message: Message) -> Message:
    """The message with `role` and `content`; unchanged if its speaker is unknown."""
    entry = message.get("role")
    if type(entry) is str and entry in ROLES and type(message.get("content")) is str and not WRAPPED & message.keys():
        return message  # the usual case
    message = in_parts(_unwrapped(message))
    key, role = _key(message), role_of(message)
    if not role:
        return {**message, "role": message[key]} if key == "from" and type(message[key]) is str else message
    is_plain = key == "role" and role == message["role"] and message.get("type") != "message"
    if is_plain and message.get("content") is not None:
        return message
    result: Message = {name: value for name, value in message.items() if name not in (key, "type") or value is None}
    result["role"] = role
    if role == CALL and key == "type":
        result = _named(result, message["type"])
    if message.get("content") is None:
        content_key = next((name for name in SPOKEN.get(role, OFTEN) if message.get(name) is not None), None)
        if content_key or role in (CALL, REASONING):
            result["content"] = result.pop(content_key or "content", None)
    return result


def _unwrapped(message: Message) -> Message:
    """A LangChain message without its serialization wrapper."""
    kind, inside = message.get("type"), message.get("data")
    if type(kind) is str and type(inside) is dict and "content" in inside and "content" not in message:
        return {**inside, "type": kind}
    names, inside = message.get("id"), message.get("kwargs")
    if kind == "constructor" and type(names) is list and names and type(inside) is dict:
        return {**inside, "type": names[-1]}
    return message


def _named(call: Message, kind: str) -> Message:
    """A call among Responses items. A built-in tool is named by its type, with its arguments as further keys."""
    answered = first_of(call, *ANSWERED)
    arguments = call.get("arguments")
    if arguments is None:
        plain = {key: value for key, value in call.items() if key not in OF_ITEM and value is not None}
        entry = first_of(call, "args", "parameters", "input")
        arguments = {"input": entry} if type(entry) is str else entry or call.get("action") or plain
    name = call.get("name") or kind.removesuffix("_call")
    call_message: Message = {"role": CALL, "name": name, "arguments": arguments}
    call_message |= {
        key: call[key] for key in ("call_id", "tool_call_id", "id", "content", "value", "text") if key in call
    }
    return call_message if answered is None else {**call_message, "answered": answered}


def _key(message: Message) -> str:
    return next((key for key in ("role", "from") if message.get(key) is not None), "type")


def _plain(name: Json) -> str:
    """A speaker's name without case, hyphens, and class suffixes: `Function-Call`, `AIMessage`."""
    if type(name) is not str:
        return ""
    return name.lower().replace("-", "_").removesuffix("chunk").removesuffix("message")
