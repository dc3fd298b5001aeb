"""A step in one line, from its light columns."""

from __future__ import annotations

from dataclasses import dataclass

from apps.trajectories.models import Step
from apps.trajectories.rendering.kinds import Kind, kind_of
from apps.trajectories.rendering.text import SCREEN_LINES, legible

LIGHT = (
    *("index", "kind", "tool", "headline", "result", "is_error", "reward", "seconds"),
    *("prompt_tokens", "completion_tokens", "context_chars", "result_chars"),
)
"""The columns of a step without message content."""


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


def _lines(chars: int) -> int:
    return min(SCREEN_LINES, 1 + chars // 80)
