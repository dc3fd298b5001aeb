"""Chats as text for a judge, message by message."""

import json

from contract.messages import Message, is_turn

GIVEN = "ASSISTANT (not judged)"
"""Who speaks where an answer is another's, such as one shown as an example."""


def message_lines(message: Message) -> list[str]:
    """One message as lines: role, content, and each call."""
    role = GIVEN if message["role"] == "assistant" and not is_turn(message) else str(message["role"]).upper()
    content = message.get("content")
    lines = [f"{role}: {_text(content)}"] if content else []
    for call in message.get("tool_calls") or []:
        function = call.get("function") or {}
        lines.append(f"{role} CALLS {function.get('name')}({_text(function.get('arguments'))})")
    return lines


def shortened(text: str, *, max_length: int) -> str:
    """The beginning and the end of a text that is longer than about `max_length` characters."""
    if len(text) <= max_length:
        return text
    return f"{text[: max_length // 2]}\n[{len(text) - max_length:,} characters left out]\n{text[-(max_length - max_length // 2) :]}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
