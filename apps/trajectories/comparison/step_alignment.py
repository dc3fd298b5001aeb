"""Aligns the steps of two trajectories by their actions, and texts by their words.

Pure, with bounded cost: trajectories of thousands of steps, or outputs of megabytes, take milliseconds, not minutes.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import blake2b
from typing import Any, NamedTuple

from apps.trajectories.comparison import actions

GAP_CELLS = 10_000
"""Maximum product of lengths up to which a gap between equal steps is aligned by similarity; in larger gaps steps are paired in order."""

MAX_EDITS = 1_000
"""Number of differences after which two sequences are treated as having nothing more in common."""

MAX_WORDS = 4_000
"""Words compared per side; the rest is compared as a whole."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


class Action(NamedTuple):
    """A step reduced to what a comparison needs."""

    tool: str
    text: str
    key: Hashable
    """What it did."""
    rest_key: Hashable
    """Everything else that one reads of it: the messages before it, its text and reasoning, and its results."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A step of the left trajectory beside one of the right; None if there is no counterpart."""

    left: int | None
    right: int | None
    same_action: bool = False
    same_rest: bool = False

    @property
    def is_identical(self) -> bool:
        return self.same_action and self.same_rest


@dataclass(frozen=True)
class Alignment:
    """Every step of both trajectories, in order, exactly once."""

    pairs: list[Pair]

    @property
    def shared_prefix(self) -> int:
        """Number of identical steps from the start."""
        return next((i for i, pair in enumerate(self.pairs) if not pair.is_identical), len(self.pairs))

    @property
    def first_divergence(self) -> int | None:
        """Index in `pairs` of the first difference; None if there is none."""
        return self.shared_prefix if self.shared_prefix < len(self.pairs) else None


class Span(NamedTuple):
    """A piece of text that both sides share, or that only one has."""

    text: str
    differs: bool


def action_of(
    message: dict[str, Any],
    context: Sequence[Any] = (),
    info: dict[str, Any] | None = None,
    results: Sequence[Any] = (),
) -> Action:
    """The action in an assistant message, after `context`, with what came back; see `actions.digest_of`."""
    calls = actions.calls_of(message)
    tool = ",".join(name for name, _ in calls)
    said = actions.text_of_message(message)
    text = "\n".join(f"{name} {arguments}" for name, arguments in calls) if calls else said
    rest = [_without_ids(context), said, str(message.get("reasoning_content") or ""), _without_ids(results)]
    digest = blake2b(actions.canonical(rest).encode("utf-8", "surrogatepass"), digest_size=16)
    return Action(tool, text[:2000], actions.digest_of(message, info), digest.digest())


def align(left: Sequence[Action], right: Sequence[Action]) -> Alignment:
    """Pair the steps of two trajectories: equal actions first, then similar ones, whatever their index."""
    pairs: list[Pair] = []
    i = j = 0
    for block in (*matching_blocks([a.key for a in left], [b.key for b in right]), (len(left), len(right), 0)):
        start_left, start_right, size = block
        pairs += _align_gap(left, right, range(i, start_left), range(j, start_right))
        pairs += [_pair(left, right, start_left + k, start_right + k) for k in range(size)]
        i, j = start_left + size, start_right + size
    return Alignment(pairs)


def word_diff(left: str, right: str) -> tuple[list[Span], list[Span]]:
    """Split both texts by words into shared and differing spans; concatenated, the spans are the texts."""
    a, b = _split_words(left), _split_words(right)
    left_spans: list[Span] = []
    right_spans: list[Span] = []
    i = j = 0
    for start_a, start_b, size in (*matching_blocks(a, b), (len(a), len(b), 0)):
        _add(left_spans, a[i:start_a], differs=True)
        _add(right_spans, b[j:start_b], differs=True)
        _add(left_spans, a[start_a : start_a + size], differs=False)
        _add(right_spans, b[start_b : start_b + size], differs=False)
        i, j = start_a + size, start_b + size
    return left_spans, right_spans


def matching_blocks(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """Runs (start in a, start in b, length) of a longest common subsequence, by Myers' O(ND) algorithm (1986).

    After MAX_EDITS differences the middle is treated as having nothing more in common, which bounds the cost.
    """
    head = _common(a, b)
    tail = _common(a[head:][::-1], b[head:][::-1])
    blocks = [(0, 0, head)] if head else []
    blocks += _middle(a, b, range(head, len(a) - tail), range(head, len(b) - tail))
    if tail:
        blocks.append((len(a) - tail, len(b) - tail, tail))
    return blocks


def _common(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def _middle(a: Sequence[Hashable], b: Sequence[Hashable], a_range: range, b_range: range) -> list[tuple[int, int, int]]:
    """The matches in the middle. Elements that occur on only one side are removed first, to save time."""
    a_values, b_values = {a[i] for i in a_range}, {b[j] for j in b_range}
    left_common = [i for i in a_range if a[i] in b_values]
    right = [j for j in b_range if b[j] in a_values]
    blocks: list[tuple[int, int, int]] = []
    for start_left, start_right, size in _myers([a[i] for i in left_common], [b[j] for j in right]):
        for k in range(size):
            i, j = left_common[start_left + k], right[start_right + k]
            if blocks and blocks[-1][0] + blocks[-1][2] == i and blocks[-1][1] + blocks[-1][2] == j:
                blocks[-1] = (blocks[-1][0], blocks[-1][1], blocks[-1][2] + 1)
            else:
                blocks.append((i, j, 1))
    return blocks


def _myers(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """`reach[k]` is the furthest x on the diagonal x − y = k after d edits; backtracking through the trace yields the matches."""
    n, m = len(a), len(b)
    if not n or not m:
        return []
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    budget = min(MAX_EDITS, 4_000_000 // (n + m))  # the trace takes d² cells
    for edits in range(min(n + m, budget) + 1):
        trace.append(reach.copy() if edits <= 1 else {k: reach[k] for k in range(-edits, edits + 1) if k in reach})
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            while x < n and x - k < m and x - k >= 0 and a[x] == b[x - k]:
                x += 1
            reach[k] = x
            if x >= n and x - k >= m:
                return _backtrack(trace, n, m)
    return []


def _backtrack(trace: list[dict[int, int]], n: int, m: int) -> list[tuple[int, int, int]]:
    blocks: list[tuple[int, int, int]] = []
    x, y = n, m
    for edits in range(len(trace) - 1, -1, -1):
        reach, k = trace[edits], x - y
        down = k == -edits or (k != edits and reach.get(k - 1, -1) < reach.get(k + 1, -1))
        before = k + 1 if down else k - 1
        before_x = reach[before] if edits else 0
        before_y = before_x - before if edits else 0
        start_x = (before_x if down else before_x + 1) if edits else 0
        if x > start_x:
            blocks.append((start_x, start_x - k, x - start_x))
        x, y = before_x, before_y
    return blocks[::-1]


def _align_gap(left: Sequence[Action], right: Sequence[Action], left_gap: range, right_gap: range) -> list[Pair]:
    """Pair the steps between equal ones by similarity, preserving order (Needleman and Wunsch, 1970)."""
    if not left_gap or not right_gap:
        return [Pair(i, None) for i in left_gap] + [Pair(None, j) for j in right_gap]
    if len(left_gap) * len(right_gap) > GAP_CELLS:
        shared = min(len(left_gap), len(right_gap))
        pairs = [_pair(left, right, left_gap[k], right_gap[k]) for k in range(shared)]
        return pairs + [Pair(i, None) for i in left_gap[shared:]] + [Pair(None, j) for j in right_gap[shared:]]
    likeness = [[_similarity(left[i], right[j]) for j in right_gap] for i in left_gap]
    best = [[0.0] * (len(right_gap) + 1) for _ in range(len(left_gap) + 1)]
    for i in range(len(left_gap) - 1, -1, -1):
        for j in range(len(right_gap) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j + 1] + likeness[i][j], best[i + 1][j], best[i][j + 1])
    return _follow(best, likeness, left, right, left_gap, right_gap)


def _follow(
    best: list[list[float]],
    likeness: list[list[float]],
    left: Sequence[Action],
    right: Sequence[Action],
    left_gap: range,
    right_gap: range,
) -> list[Pair]:
    pairs: list[Pair] = []
    i = j = 0
    while i < len(left_gap) and j < len(right_gap):
        if likeness[i][j] and best[i][j] == best[i + 1][j + 1] + likeness[i][j]:
            pairs.append(_pair(left, right, left_gap[i], right_gap[j]))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            pairs.append(Pair(left_gap[i], None))
            i += 1
        else:
            pairs.append(Pair(None, right_gap[j]))
            j += 1
    return pairs + [Pair(k, None) for k in left_gap[i:]] + [Pair(None, k) for k in right_gap[j:]]


def _similarity(a: Action, b: Action) -> float:
    """From 0 for unrelated steps to 2 for the same tool with nearly the same arguments."""
    if a.tool != b.tool:
        return 0.0
    overlap = SequenceMatcher(None, a.text[:120], b.text[:120], autojunk=False).quick_ratio()
    return 1.0 + overlap if a.tool else overlap * 1.5


def _pair(left: Sequence[Action], right: Sequence[Action], i: int, j: int) -> Pair:
    return Pair(i, j, left[i].key == right[j].key, left[i].rest_key == right[j].rest_key)


def _without_ids(messages: Sequence[Any]) -> list[Any]:
    return [_without_id(message) if isinstance(message, dict) else message for message in messages]


def _without_id(message: dict[str, Any]) -> dict[str, Any]:
    said = {key: message[key] for key in ("role", "name", "content") if message.get(key)}
    return {**said, "calls": actions.calls_of(message)} if isinstance(message.get("tool_calls"), list) else said


def _split_words(text: str) -> list[str]:
    words: list[str] = []
    position = 0
    for match in _WORD.finditer(text):
        if len(words) == MAX_WORDS:
            break
        words.append(match[0])
        position = match.end()
    if position < len(text):
        words.append(text[position:])
    return words


def _add(spans: list[Span], parts: list[str], *, differs: bool) -> None:
    if parts:
        spans.append(Span("".join(parts), differs))
