"""Rollouts as text for a judge."""

import json
from typing import Any

from contract.messages import Message
from contract.trajectory import Trajectory


def lines_of(trajectory: Trajectory) -> list[str]:
    """The task, then message by message."""
    return [
        f"TASK: {trajectory.task.instruction}",
        *(line for message in trajectory.messages() for line in message_lines(message)),
    ]


def message_lines(message: Message) -> list[str]:
    role = str(message.get("role", "")).upper()
    lines = [f"{role}: {message['content']}"] if message.get("content") else []
    for call in message.get("tool_calls") or []:
        function: dict[str, Any] = call.get("function") or {}
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        lines.append(f"{role} CALLS {function.get('name')}({text})")
    return lines


def shortened(text: str, *, max_length: int) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= max_length:
        return text
    return f"{text[: max_length // 2]}\n[{len(text) - max_length:,} characters left out]\n{text[-(max_length - max_length // 2) :]}"
