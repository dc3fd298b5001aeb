"""A run as text for a model to read: message by message, and of one that is too long the beginning and the end."""

import json
import re
from typing import Any

from apps.trajectories.models import Step, Trajectory

Message = dict[str, Any]
FENCES = re.compile(r"<(/?)run\b")


def transcript(run: Trajectory, *, most: int) -> str:
    """At most `most` characters, about, and nothing in it can end the fence that it stands in."""
    lines: list[str] = []
    steps = Step.objects.filter(trajectory=run).order_by("index").values_list("context", "message")
    for context, message in steps:
        lines += [line for heard in context for line in said(heard)]
        lines += said(message)
    lines += [line for heard in run.closing for line in said(heard)]
    return shortened("\n".join(lines), most=most)


def shortened(text: str, *, most: int) -> str:
    """Text that cannot end a fence nor begin one; of one that is too long the beginning and the end."""
    text = FENCES.sub(r"<\\\1run", text)
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[{len(text) - most:,} characters left out]\n{text[-(most - most // 2) :]}"


def said(message: Message) -> list[str]:
    """One message in lines: who, what, and each call."""
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
