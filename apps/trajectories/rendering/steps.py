"""The view model of a step for every page with steps: what the agent saw, thought, said, and called, and what came back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.trajectories.models import Step
from apps.trajectories.rendering.blocks import Block, blocks_of, text_block
from apps.trajectories.rendering.calls import CallView, call_view, name_and_arguments
from apps.trajectories.rendering.forms import ContentLocation
from apps.trajectories.rendering.heads import StepHead, head_of
from apps.trajectories.rendering.kinds import kind_of
from apps.trajectories.rendering.messages import (
    MAX_CALLS,
    Messages,
    MessageView,
    as_list,
    further_calls,
    message_views,
    role_of,
)
from apps.trajectories.rendering.results import results_and_rest, shows_error, with_results
from apps.trajectories.rendering.rules import broken_rules
from apps.trajectories.rendering.step_parts import SAID_OTHERWISE
from apps.trajectories.rendering.text import one_line


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
    calls = as_list(message.get("tool_calls"))
    views = [call_view(call, part_url, i) for i, call in enumerate(calls[:MAX_CALLS])]
    results, rest = results_and_rest(step.kind, following)
    error = _info(step).get("error")
    elsewhere = {identifier for call in calls[MAX_CALLS:] if (identifier := name_and_arguments(call)[2])}
    views, unmatched = with_results(views, results, part_url, error, elsewhere)
    reasoning = message.get("reasoning_content")
    return StepView(
        head=head_of(step, blind=blind),
        context=message_views(_context_shown(step, previous_kind), "before", part_url, among=step.context, blind=blind),
        reasoning=text_block(reasoning, ContentLocation(part_url, "reasoning"), spoken=True) if reasoning else None,
        speaker="" if blind else _line_of(message.get("name"), 60),
        content=[
            *blocks_of(message.get("content"), part_url, "said", spoken=True),
            *_said_otherwise(message, part_url),
        ],
        calls=views,
        came_back=message_views(
            unmatched, "after", part_url, among=following, result_of=kind_of(step.kind, step.tool), blind=blind
        ),
        closing=message_views(rest, "after", part_url, among=following, blind=blind) if is_last else [],
        error="" if any(shows_error(message, error) for _, message in results) else _line_of(error, 400),
        rules=[] if blind else broken_rules(step.info),
        mistake="" if blind else _line_of(_info(step).get("mistake"), 400),
        blind=blind,
        more_calls=further_calls(calls, part_url, "call"),
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


def _said_otherwise(message: dict[str, Any], part_url: str) -> list[Block]:
    """What the policy said outside its content."""
    values = {name: message.get(name) for name in SAID_OTHERWISE}
    return [text_block(value, ContentLocation(part_url, name), spoken=True) for name, value in values.items() if value]


def _context_shown(step: Step, previous_kind: str) -> list[tuple[int, Any]]:
    """The context messages displayed with this step, not with the previous one as its results."""
    context = list(enumerate(as_list(step.context)))
    if not step.index:
        return context
    if previous_kind == "tool" and not any(role_of(message) == "tool" for _, message in context):
        return [pair for pair in context if role_of(pair[1]) != "user"]
    return [pair for pair in context if role_of(pair[1]) != "tool"]


def _info(step: Step) -> dict[str, Any]:
    return step.info if isinstance(step.info, dict) else {}


def _line_of(value: Any, max_length: int) -> str:
    return one_line(value, max_length) if isinstance(value, str) else ""
