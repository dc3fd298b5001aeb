"""Content of a step by name, for "show more" and downloads."""

from __future__ import annotations

from typing import Any

from apps.trajectories.models import Step
from apps.trajectories.rendering.blocks import text_of_part
from apps.trajectories.rendering.calls import part_of_call
from apps.trajectories.rendering.messages import Messages, as_data, content_of, said_in, stretch_of

SAID_OTHERWISE = ("refusal", "audio")
"""Fields of a message with what a policy said outside its content."""


def part_of(step: Step, following: Messages, at: str) -> Any:
    """The stored content that `at` names inside a step, for "show more" and downloads. Raises LookupError."""
    name, *rest = at.split(".")
    message = step.message if isinstance(step.message, dict) else {"content": step.message}
    try:
        if name == "reasoning":
            return message["reasoning_content"]
        if name in SAID_OTHERWISE:
            return message[name]
        if name == "said":
            return _inside(message.get("content"), rest)
        if name == "call":
            return _in_calls(message["tool_calls"], rest)
        if name in {"before", "after"}:
            messages = step.context if name == "before" else following
            if "-" in rest[0]:
                return said_in(messages[stretch_of(rest[0])])
            message = messages[int(rest[0])]
            if rest[1:2] == ["call"]:
                return _in_calls(message["tool_calls"], rest[2:3])
            return _inside(content_of(message), rest[1:])
    except (ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise LookupError(at) from error
    raise LookupError(at)


def _in_calls(calls: list[Any], path: list[str]) -> Any:
    if "-" in path[0]:
        return as_data(calls[stretch_of(path[0])])
    return part_of_call(calls[int(path[0])], path[1] if len(path) > 1 else "")


def _inside(content: Any, path: list[str]) -> Any:
    if not path:
        return content
    if "-" in path[0]:
        return content[stretch_of(path[0])]
    part = content[int(path[0])]
    text = text_of_part(part)
    return part if text is None else text
