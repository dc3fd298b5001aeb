"""The view model of a step for every page with steps: what the agent saw, thought, said, and called, and what came back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from apps.trajectories.models import Step
from apps.trajectories.rendering.blocks import Block, as_form, blocks_of, note, text_block, text_of_part
from apps.trajectories.rendering.calls import CallView, call_view, earlier_call, name_and_arguments, part_of_call
from apps.trajectories.rendering.forms import ContentLocation
from apps.trajectories.rendering.kinds import OTHER, Kind, kind_of
from apps.trajectories.rendering.rules import broken_rules
from apps.trajectories.rendering.text import SCREEN_LINES, legible, one_line, size_text

MAX_CALLS = 40
FIRST_MESSAGES, LAST_MESSAGES = 20, 40
"""Messages shown one by one; those between them are a tree. The last ones include what the step answers."""
WORTH_FOLDING = 400
"""Characters: folding a shorter message saves hardly any space."""
ERROR_CHARS = 2_000
"""How far into a result an error is searched for, to avoid showing it twice."""

LIGHT = (
    *("index", "kind", "tool", "headline", "result", "is_error", "reward", "seconds"),
    *("prompt_tokens", "completion_tokens", "context_chars", "result_chars"),
)
"""The columns of a step without message content."""

SAID_OTHERWISE = ("refusal", "audio")

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


@dataclass(frozen=True, slots=True)
class StepHead:
    """A step in one line, from its light columns."""

    index: int
    number: int
    kind: Kind
    tool: str
    headline: str
    result: str
    is_error: bool
    reward: float | None
    seconds: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    lines: int = 0
    """Approximate height of the opened step in lines, so that pages can reserve space for it."""


@dataclass(frozen=True)
class StepView:
    """An opened step. With `blind`, nothing in it reveals how well the trajectory did."""

    head: StepHead
    context: list[MessageView]
    reasoning: Block | None
    speaker: str
    """Which agent of a team spoke; empty for single agents, and with `blind`, because a name may be a model's."""
    content: list[Block]
    calls: list[CallView]
    came_back: list[MessageView]
    """Results that belong to no call."""
    closing: list[MessageView]
    """The trajectory's final messages, after the last step."""
    error: str
    """The error, unless a result already shows it."""
    rules: list[str]
    """Rules that it broke; none with `blind`."""
    mistake: str
    """What its source says is wrong with it; empty with `blind`."""
    blind: bool
    more_calls: list[Block] = field(default_factory=list)


def head_of(step: Step, *, blind: bool = False) -> StepHead:
    """The step's line. Reads light columns only."""
    return head_from(*(getattr(step, name) for name in LIGHT), blind=blind)


def head_from(
    index: int,
    kind: str,
    tool: str,
    headline: str,
    result: str,
    is_error: bool,
    reward: float | None,
    seconds: float | None,
    prompt_tokens: int | None,
    completion_tokens: int | None,
    context_chars: int,
    result_chars: int,
    *,
    blind: bool = False,
) -> StepHead:
    """The line of a step from its LIGHT columns: a long trajectory's outline needs no model instances."""
    return StepHead(
        index=index,
        number=index + 1,
        kind=kind_of(kind, tool),
        tool=legible(tool),
        headline=legible(headline),
        result=legible(result),
        is_error=is_error,
        reward=None if blind else reward,
        seconds=seconds,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        lines=_lines(result_chars) + (_lines(context_chars) if index == 0 else 0) + 4,
    )


def step_view(
    step: Step,
    *,
    following: Messages,
    part_url: str,
    previous_kind: str = "",
    is_last: bool = False,
    blind: bool = False,
) -> StepView:
    """Build the view of one opened step.

    `following`: the next step's context, or the trajectory's closing messages after the last one. `previous_kind`: the stored kind
    of the step before (it determines whether a user message is a result). `part_url`: where the rest of long content is fetched.
    """
    message = step.message if isinstance(step.message, dict) else {"content": step.message}
    calls = _list(message.get("tool_calls"))
    views = [call_view(call, part_url, i) for i, call in enumerate(calls[:MAX_CALLS])]
    results, rest = results_and_rest(step.kind, following)
    error = _info(step).get("error")
    elsewhere = {identifier for call in calls[MAX_CALLS:] if (identifier := name_and_arguments(call)[2])}
    views, unmatched = _with_results(views, results, part_url, error, elsewhere)
    reasoning = message.get("reasoning_content")
    return StepView(
        head=head_of(step, blind=blind),
        context=_messages(_context_shown(step, previous_kind), "before", part_url, among=step.context, blind=blind),
        reasoning=text_block(reasoning, ContentLocation(part_url, "reasoning"), spoken=True) if reasoning else None,
        speaker="" if blind else _line_of(message.get("name"), 60),
        content=[
            *blocks_of(message.get("content"), part_url, "said", spoken=True),
            *_said_otherwise(message, part_url),
        ],
        calls=views,
        came_back=_messages(
            unmatched, "after", part_url, among=following, result_of=kind_of(step.kind, step.tool), blind=blind
        ),
        closing=_messages(rest, "after", part_url, among=following, blind=blind) if is_last else [],
        error="" if any(_shows_error(message, error) for _, message in results) else _line_of(error, 400),
        rules=[] if blind else broken_rules(step.info),
        mistake="" if blind else _line_of(_info(step).get("mistake"), 400),
        blind=blind,
        more_calls=_further_calls(calls, part_url, "call"),
    )


def step_views(
    steps: Sequence[Step],
    *,
    following: Messages,
    part_url: Callable[[int], str],
    previous_kind: str = "",
    is_end: bool = False,
    blind: bool = False,
) -> list[StepView]:
    """Neighboring steps, opened. `following` comes after the last, `previous_kind` is that before the first; `is_end`: they end the trajectory."""
    kinds = [previous_kind, *(step.kind for step in steps)]
    following_contexts = [*(step.context for step in steps[1:]), following]
    return [
        step_view(
            step,
            following=following_contexts[index],
            part_url=part_url(step.index),
            previous_kind=kinds[index],
            is_last=is_end and index == len(steps) - 1,
            blind=blind,
        )
        for index, step in enumerate(steps)
    ]


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
                return _said_in(messages[_stretch(rest[0])])
            message = messages[int(rest[0])]
            if rest[1:2] == ["call"]:
                return _in_calls(message["tool_calls"], rest[2:3])
            return _inside(_content(message), rest[1:])
    except (ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise LookupError(at) from error
    raise LookupError(at)


def _said_otherwise(message: dict[str, Any], part_url: str) -> list[Block]:
    """What the policy said outside its content."""
    values = {name: message.get(name) for name in SAID_OTHERWISE}
    return [text_block(value, ContentLocation(part_url, name), spoken=True) for name, value in values.items() if value]


def _stretch(name: str) -> slice:
    """Positions as in `before.20-59`, both included."""
    first, _, last = name.partition("-")
    return slice(int(first), int(last) + 1)


def _said_in(messages: Messages) -> list[dict[str, Any]]:
    """Who said and called what, without names, which may be models'."""
    return [
        {"role": _role(message), "content": _content(message)}
        | ({"calls": called} if (called := _called(message)) else {})
        for message in messages
    ]


def _in_calls(calls: list[Any], path: list[str]) -> Any:
    if "-" in path[0]:
        return _as_data(calls[_stretch(path[0])])
    return part_of_call(calls[int(path[0])], path[1] if len(path) > 1 else "")


def _inside(content: Any, path: list[str]) -> Any:
    if not path:
        return content
    if "-" in path[0]:
        return content[_stretch(path[0])]
    part = content[int(path[0])]
    text = text_of_part(part)
    return part if text is None else text


def _context_shown(step: Step, previous_kind: str) -> list[tuple[int, Any]]:
    """The context messages displayed with this step, not with the previous one as its results."""
    context = list(enumerate(_list(step.context)))
    if not step.index:
        return context
    if previous_kind == "tool" and not any(_role(message) == "tool" for _, message in context):
        return [pair for pair in context if _role(pair[1]) != "user"]
    return [pair for pair in context if _role(pair[1]) != "tool"]


def results_and_rest(kind: str, following: Messages) -> tuple[list[tuple[int, Any]], list[tuple[int, Any]]]:
    """The results of a step of this stored kind, and the other messages that follow it, with their positions. Agents that write commands as text get
    results as user messages.
    """
    messages = list(enumerate(_list(following)))
    role = "tool" if any(_role(message) == "tool" for _, message in messages) or kind != "tool" else "user"
    return [pair for pair in messages if _role(pair[1]) == role], [pair for pair in messages if _role(pair[1]) != role]


def _with_results(
    calls: list[CallView], results: list[tuple[int, Any]], url: str, error: Any, elsewhere: set[str]
) -> tuple[list[CallView], list[tuple[int, Any]]]:
    """Assign each result to its call, by id; results without a known id go to calls without one, in order. Results that report the step's
    `error`, or failure themselves, are marked as failed. `elsewhere`: ids of calls that aren't among these."""
    is_ours = {i: not isinstance(m, dict) or m.get("tool_call_id") not in elsewhere for i, m in results}
    waiting = {i: message for i, message in results if is_ours[i]}
    matched: dict[int, list[tuple[int, Any]]] = {}
    for call_index, call in enumerate(calls):
        own_results = [
            pair
            for pair in waiting.items()
            if call.id and isinstance(pair[1], dict) and pair[1].get("tool_call_id") == call.id
        ]
        matched[call_index] = own_results
        for index, _ in own_results:
            del waiting[index]
    for call_index in range(len(calls)):
        if not matched[call_index] and waiting:
            index = next(iter(waiting))
            matched[call_index] = [(index, waiting.pop(index))]
    answered = [
        replace(
            call,
            results=[
                block
                for i, message in matched[call_index]
                for block in _blocks(message, f"after.{i}", url, call.kind) or [note("Nothing")]
            ],
            failed=any(_is_bad(message) or _shows_error(message, error) for _, message in matched[call_index]),
        )
        for call_index, call in enumerate(calls)
    ]
    return answered, [(i, message) for i, message in results if i in waiting or not is_ours[i]]


def _messages(
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
    messages = among[_stretch(stretch)]
    said, count = _said_in(messages), len(messages)
    return MessageView(
        role="other",
        title=f"{count:,} more message{'' if count == 1 else 's'}",
        size="",
        blocks=[as_form(said, ContentLocation(url, f"{name}.{stretch}"), "tree")],
        content=said,
        is_demo=all(map(_is_demo, messages)),
        count=count,
    )


def _is_demo(message: Any) -> bool:
    return isinstance(message, dict) and bool(message.get("is_demo"))


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
    role = _role(message) if result_of is None else "tool"
    content, calls, called = _content(message), _calls_in(message), _called(message)
    name = message.get("name") if isinstance(message, dict) and not (blind and role != "tool") else None
    return MessageView(
        role=role if role in ROLES else "other",
        title=one_line(f"{ROLES.get(role, role)} {name}" if isinstance(name, str) else ROLES.get(role, role), 80),
        size=size_text(len(content), content.count("\n") + 1) if isinstance(content, str) else "",
        blocks=[
            *_blocks(message, at, url, result_of or (OTHER if role == "tool" else None)),
            *(earlier_call(call, ContentLocation(url, f"{at}.call.{i}")) for i, call in enumerate(calls[:MAX_CALLS])),
            *_further_calls(calls, url, f"{at}.call"),
        ],
        is_bad=_is_bad(message),
        content=[content, called] if called else content,
        is_demo=_is_demo(message),
    )


def _blocks(message: Any, at: str, url: str, tool: Kind | None) -> list[Block]:
    return blocks_of(_content(message), url, at, tool=tool, spoken=tool is None)


def _content(message: Any) -> Any:
    return message.get("content") if isinstance(message, dict) else message


def _calls_in(message: Any) -> list[Any]:
    """The calls of an earlier turn, which was given to the policy."""
    return _list(message.get("tool_calls")) if isinstance(message, dict) else []


def _called(message: Any) -> list[dict[str, Any]]:
    return _as_data(_calls_in(message))


def _as_data(calls: list[Any]) -> list[dict[str, Any]]:
    """Calls as names and arguments: their ids say nothing, and their form shows the provider."""
    return [dict(zip(("name", "arguments"), name_and_arguments(call), strict=False)) for call in calls]


def _further_calls(calls: list[Any], url: str, at: str) -> list[Block]:
    """The calls beyond those that are shown one by one."""
    further = _as_data(calls[MAX_CALLS:])
    if not further:
        return []
    label = f"{len(further):,} more call{'' if len(further) == 1 else 's'}"
    return [as_form(further, ContentLocation(url, f"{at}.{MAX_CALLS}-{len(calls) - 1}"), "tree", label=label)]


def _is_bad(message: Any) -> bool:
    return isinstance(message, dict) and bool(message.get("is_error"))


def _shows_error(message: Any, error: Any) -> bool:
    """Whether a message contains the error verbatim, as text or inside JSON, near its beginning."""
    content = _content(message)
    if not isinstance(error, str) or not error or not isinstance(content, str):
        return False
    shown = content[:ERROR_CHARS]
    return error in shown or json.dumps(error, ensure_ascii=False)[1:-1] in shown


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else "user"


def _info(step: Step) -> dict[str, Any]:
    return step.info if isinstance(step.info, dict) else {}


def _line_of(value: Any, max_length: int) -> str:
    return one_line(value, max_length) if isinstance(value, str) else ""


def _lines(chars: int) -> int:
    return min(SCREEN_LINES, 1 + chars // 80)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
