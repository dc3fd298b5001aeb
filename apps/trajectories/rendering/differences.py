"""Compares two opened steps: marks differing words in arguments, messages, and results, and the messages that both received."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

from apps.common.markup import Markup, element, joined
from apps.trajectories.comparison.step_alignment import Span, word_diff
from apps.trajectories.rendering.blocks import Block
from apps.trajectories.rendering.calls import CallView, Fact
from apps.trajectories.rendering.forms import plain_markup
from apps.trajectories.rendering.messages import MessageView
from apps.trajectories.rendering.steps import StepView
from apps.trajectories.rendering.text import legible


def mark_pair(left: StepView, right: StepView) -> tuple[StepView, StepView]:
    """Both steps with their differences marked. If they have little in common, nothing is marked, since marks everywhere are useless."""
    calls = [_calls(a, b) for a, b in zip(left.calls, right.calls, strict=False)]
    content, context = _blocks(left.content, right.content), _contexts(left.context, right.context)
    return (
        replace(left, calls=[a for a, _ in calls] + left.calls[len(calls) :], content=content[0], context=context[0]),
        replace(right, calls=[b for _, b in calls] + right.calls[len(calls) :], content=content[1], context=context[1]),
    )


def _contexts(left: list[MessageView], right: list[MessageView]) -> tuple[list[MessageView], list[MessageView]]:
    """Messages are compared by position."""
    same = [a.role == b.role and a.content == b.content for a, b in zip(left, right, strict=False)]
    return _with_same_marked(left, same), _with_same_marked(right, same)


def _with_same_marked(messages: list[MessageView], same: list[bool]) -> list[MessageView]:
    marked = [replace(message, is_same=alike) for message, alike in zip(messages, same, strict=False)]
    return marked + messages[len(same) :]


def _calls(a: CallView, b: CallView) -> tuple[CallView, CallView]:
    if a.tool != b.tool:
        return a, b
    blocks, results, facts = _blocks(a.blocks, b.blocks), _blocks(a.results, b.results), _facts(a.facts, b.facts)
    return (
        replace(a, blocks=blocks[0], results=results[0], facts=facts[0]),
        replace(b, blocks=blocks[1], results=results[1], facts=facts[1]),
    )


def _facts(left: Sequence[Fact], right: Sequence[Fact]) -> tuple[list[Fact], list[Fact]]:
    left_values, right_values = ({fact.name: fact.value for fact in facts} for facts in (left, right))
    return [_fact(fact, right_values.get(fact.name)) for fact in left], [
        _fact(f, left_values.get(f.name)) for f in right
    ]


def _fact(fact: Fact, other: str | None) -> Fact:
    if fact.value == other:
        return fact
    spans = word_diff(fact.value, other or "")[0]
    return replace(fact, marked=_marked(spans if other and _is_informative(spans) else [Span(fact.value, True)]))


def _blocks(left: list[Block], right: list[Block]) -> tuple[list[Block], list[Block]]:
    pairs = [_pair(a, b) for a, b in zip_longest(left, right)]
    return [a for a, _ in pairs if a], [b for _, b in pairs if b]


def _pair(a: Block | None, b: Block | None) -> tuple[Block | None, Block | None]:
    if not a or not b or a.form != b.form or not a.text or not b.text or a.text == b.text:
        return a, b
    left, right = word_diff(a.text, b.text)
    if not (_is_informative(left) and _is_informative(right)):
        return a, b
    return replace(a, html=plain_markup(a.form, _marked(left))), replace(b, html=plain_markup(b.form, _marked(right)))


def _is_informative(spans: Iterable[Span]) -> bool:
    """Whether at least a third of a text is the same in the other."""
    same = total = 0
    for span in spans:
        size = len(span.text.strip())
        total += size
        same += 0 if span.differs else size
    return same * 3 >= total


def _marked(spans: Sequence[Span]) -> Markup:
    """White space is marked only if nothing else differs."""
    has_words = any(span.differs and span.text.strip() for span in spans)
    shown = ((legible(span.text), span.differs and (span.text.strip() or not has_words)) for span in spans)
    return joined(element("mark", text) if differs else text for text, differs in shown)
