"""The view models of messages around a step: what the agent was given, and results that belong to no call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from apps.trajectories.rendering.blocks import Block, as_form, blocks_of
from apps.trajectories.rendering.calls import earlier_call, name_and_arguments
from apps.trajectories.rendering.forms import ContentLocation
from apps.trajectories.rendering.kinds import OTHER, Kind
from apps.trajectories.rendering.text import one_line, size_text

MAX_CALLS = 40
"""Calls of one message that are shown one by one; those beyond are a tree."""
FIRST_MESSAGES, LAST_MESSAGES = 20, 40
"""Messages shown one by one; those between them are a tree. The last ones include what the step answers."""
WORTH_FOLDING = 400
"""Characters: folding a shorter message saves hardly any space."""

DEMONSTRATION = "Demonstration, not this task"

Messages = Sequence[Any]
ROLES = {
    "system": "System prompt",
    "developer": "Developer",
    "user": "User",
    "tool": "Result",
    "assistant": "Assistant",
}


@dataclass(frozen=True)
class MessageView:
    """A message to the agent."""

    role: str
    title: str
    size: str
    blocks: list[Block]
    is_bad: bool = False
    content: Any = None
    """The stored content, with any calls, which comparisons compare."""
    is_same: bool = False
    """In a comparison: the other trajectory received the identical message."""
    is_demo: bool = False
    """Part of a demonstration shown to the agent: another agent's work on another task."""
    count: int = 1
    """How many messages it stands for."""

    @property
    def is_folded(self) -> bool:
        """Initially closed: demonstrations, system prompts, which are the same in every trajectory of a task, and long messages that
        both trajectories received."""
        return (
            self.is_demo
            or self.role in {"system", "developer"}
            or (self.is_same and len(str(self.content)) > WORTH_FOLDING)
        )


def message_views(
    pairs: list[tuple[int, Any]], name: str, url: str, *, among: Messages, result_of: Kind | None = None, blind: bool
) -> list[MessageView]:
    """`pairs`: the messages to show, with their positions `among` all that have this name."""
    end = max(FIRST_MESSAGES, len(pairs) - LAST_MESSAGES)
    views = [
        _message(message, f"{name}.{i}", url, result_of, blind)
        for i, message in (*pairs[:FIRST_MESSAGES], *pairs[end:])
    ]
    if between := pairs[FIRST_MESSAGES:end]:
        views.insert(FIRST_MESSAGES, _stretch_view(among, f"{between[0][0]}-{between[-1][0]}", name, url))
    return [
        view for is_demo, group in groupby(views, lambda view: view.is_demo) for view in _folded(is_demo, list(group))
    ]


def _stretch_view(among: Messages, stretch: str, name: str, url: str) -> MessageView:
    messages = among[stretch_of(stretch)]
    said, count = said_in(messages), len(messages)
    return MessageView(
        role="other",
        title=f"{count:,} more message{'' if count == 1 else 's'}",
        size="",
        blocks=[as_form(said, ContentLocation(url, f"{name}.{stretch}"), "tree")],
        content=said,
        is_demo=all(map(_is_demo, messages)),
        count=count,
    )


def _folded(is_demo: bool, views: list[MessageView]) -> list[MessageView]:
    """Merge the messages of one demonstration into one, whatever their roles."""
    if not is_demo:
        return views
    blocks = [block for view in views for block in view.blocks]
    count = sum(view.count for view in views)
    size = views[0].size if count == 1 else f"{count} messages"
    return [
        replace(
            views[0],
            role="other",
            title=DEMONSTRATION,
            size=size,
            blocks=blocks,
            content=[view.content for view in views],
        )
    ]


def _message(message: Any, at: str, url: str, result_of: Kind | None, blind: bool) -> MessageView:
    """`result_of`: the message is the result of a call of this kind, whatever its role. `blind` hides the speaker, except of tool messages."""
    role = role_of(message) if result_of is None else "tool"
    content, calls, called = content_of(message), calls_of(message), _called(message)
    name = message.get("name") if isinstance(message, dict) and not (blind and role != "tool") else None
    return MessageView(
        role=role if role in ROLES else "other",
        title=one_line(f"{ROLES.get(role, role)} {name}" if isinstance(name, str) else ROLES.get(role, role), 80),
        size=size_text(len(content), content.count("\n") + 1) if isinstance(content, str) else "",
        blocks=[
            *message_blocks(message, at, url, result_of or (OTHER if role == "tool" else None)),
            *(earlier_call(call, ContentLocation(url, f"{at}.call.{i}")) for i, call in enumerate(calls[:MAX_CALLS])),
            *further_calls(calls, url, f"{at}.call"),
        ],
        is_bad=is_failed(message),
        content=[content, called] if called else content,
        is_demo=_is_demo(message),
    )


def message_blocks(message: Any, at: str, url: str, tool: Kind | None) -> list[Block]:
    return blocks_of(content_of(message), url, at, tool=tool, spoken=tool is None)


def further_calls(calls: list[Any], url: str, at: str) -> list[Block]:
    """The calls beyond those that are shown one by one."""
    further = as_data(calls[MAX_CALLS:])
    if not further:
        return []
    label = f"{len(further):,} more call{'' if len(further) == 1 else 's'}"
    return [as_form(further, ContentLocation(url, f"{at}.{MAX_CALLS}-{len(calls) - 1}"), "tree", label=label)]


def _called(message: Any) -> list[dict[str, Any]]:
    return as_data(calls_of(message))


def as_data(calls: list[Any]) -> list[dict[str, Any]]:
    """Calls as names and arguments: their ids say nothing, and their form shows the provider."""
    return [dict(zip(("name", "arguments"), name_and_arguments(call), strict=False)) for call in calls]


def calls_of(message: Any) -> list[Any]:
    """The calls of an earlier turn, which was given to the policy."""
    return as_list(message.get("tool_calls")) if isinstance(message, dict) else []


def content_of(message: Any) -> Any:
    return message.get("content") if isinstance(message, dict) else message


def role_of(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else "user"


def is_failed(message: Any) -> bool:
    return isinstance(message, dict) and bool(message.get("is_error"))


def _is_demo(message: Any) -> bool:
    return isinstance(message, dict) and bool(message.get("is_demo"))


def said_in(messages: Messages) -> list[dict[str, Any]]:
    """Who said and called what, without names, which may be models'."""
    return [
        {"role": role_of(message), "content": content_of(message)}
        | ({"calls": called} if (called := _called(message)) else {})
        for message in messages
    ]


def stretch_of(name: str) -> slice:
    """Positions as in `before.20-59`, both included."""
    first, _, last = name.partition("-")
    return slice(int(first), int(last) + 1)


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
