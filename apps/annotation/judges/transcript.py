"""A trajectory as text for a model, message by message; long ones are cut in the middle."""

import json
from typing import Any

from apps.trajectories.models import Step, Trajectory
from contract import fences

Message = dict[str, Any]


def transcript(trajectory: Trajectory, *, max_length: int) -> str:
    """At most about `max_length` characters; the text can't close its surrounding fence."""
    lines: list[str] = []
    steps = Step.objects.filter(trajectory=trajectory).order_by("index").values_list("context", "message")
    for context, message in steps:
        lines += [line for message in context for line in message_lines(message)]
        lines += message_lines(message)
    lines += [line for message in trajectory.closing for line in message_lines(message)]
    return shortened("\n".join(lines), max_length=max_length)


def shortened(text: str, *, max_length: int) -> str:
    """Text that can neither close nor open a fence; long text is cut in the middle."""
    text = fences.inside(text, "run")
    if len(text) <= max_length:
        return text
    return f"{text[: max_length // 2]}\n[{len(text) - max_length:,} characters left out]\n{text[-(max_length - max_length // 2) :]}"


def message_lines(message: Message) -> list[str]:
    """One message as lines: role, content, and each call."""
    role = str(message.get("role", "")).upper()
    content = message.get("content")
    lines = (
        [f"{role}: {content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)}"]
        if content
        else []
    )
    for call in message.get("tool_calls") or []:
        function = call.get("function") or {}
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        lines.append(f"{role} CALLS {function.get('name')}({text})")
    return lines
