"""Renders file changes: patches as they were written, and old and new text as the patch between them."""

from __future__ import annotations

import re

from apps.common.markup import Markup, Tag, element, joined, tag
from apps.trajectories.comparison.step_alignment import Span, matching_blocks, word_diff
from apps.trajectories.rendering.text import legible

CONTEXT_LINES = 3
MAX_LINES = 4_000
MAX_WORD_LINE = 400
LINES: dict[str, Tag] = {name: tag("span", class_=name) for name in ("add", "remove", "hunk", "head")}

_PATCH = re.compile(
    r"^(?:diff --git |Index: .+\n=+|--- \S.*\n\+\+\+ |@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|\*\*\* (?:Begin Patch|Update File|Add File))",
    re.M,
)
_HEAD = (
    "diff --git",
    "index ",
    "+++ ",
    "--- ",
    "new file",
    "deleted file",
    "similarity",
    "rename ",
    "old mode",
    "new mode",
    "*** ",
)


def looks_like_patch(text: str) -> bool:
    """Whether the beginning of a text looks like a unified diff."""
    return bool(_PATCH.search(text[:3000]))


def render_patch(text: str) -> Markup:
    """A patch with one class per line: add, remove, hunk, head."""
    return joined(_line(_class_of(line), line) for line in legible(text).removesuffix("\n").split("\n"))


def patch_between(old: str, new: str) -> str:
    """The unified diff from `old` to `new`, without file names; a very large change becomes all lines removed and all added, which bounds the cost.

    A final newline that only one text has is pointed out, and carriage returns are visible unless they end every line of both.
    """
    a, b = _lines_of(old, new), _lines_of(new, old)
    if len(a) > MAX_LINES or len(b) > MAX_LINES:
        return "\n".join([*("-" + line for line in a), *("+" + line for line in b)])
    out: list[str] = []
    i = j = 0
    blocks = [*matching_blocks(a, b), (len(a), len(b), 0)]
    for start_a, start_b, size in blocks:
        out += ["-" + line for line in a[i:start_a]] + ["+" + line for line in b[j:start_b]]
        is_last = start_a + size == len(a)
        out += _context(a[start_a : start_a + size], start_a + 1, first=start_a == 0 == start_b, last=is_last)
        i, j = start_a + size, start_b + size
    return "\n".join(out)


def _lines_of(text: str, other: str) -> list[str]:
    is_crlf = all(each.count("\n") == each.count("\r\n") for each in (text, other))
    if not is_crlf:
        text = text.replace("\r\n", "␍\n")
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    if text and not text.endswith("\n") and other.endswith("\n"):
        lines[-1] += "\n\\ No newline at the end"
    return lines


def render_edit(patch: str) -> Markup:
    """Like `render_patch`; if lines are replaced by the same number of lines, differing words are marked."""
    lines = legible(patch).split("\n")
    parts: list[str] = []
    position = 0
    while position < len(lines):
        removed = _count_lines(lines, position, "-")
        added = _count_lines(lines, position + removed, "+")
        if removed and removed == added:
            parts += _replaced(
                lines[position : position + removed], lines[position + removed : position + removed + added]
            )
            position += removed + added
        else:
            parts.append(_line(_class_of(lines[position], bare=True), lines[position]))
            position += 1
    return joined(parts)


def _context(lines: list[str], number: int, *, first: bool, last: bool) -> list[str]:
    """Unchanged lines; long stretches are reduced to the lines near a change and a count of the rest."""
    before, after = (0 if first else CONTEXT_LINES), (0 if last else CONTEXT_LINES)
    if len(lines) <= before + after + 2:
        return [" " + line for line in lines]
    context_lines = lines[len(lines) - after :] if after else []
    skipped = len(lines) - before - after
    return [
        *(" " + line for line in lines[:before]),
        f"@@ {skipped} unchanged lines @@",
        *(" " + line for line in context_lines),
    ]


def _count_lines(lines: list[str], start: int, sign: str) -> int:
    count = 0
    while start + count < len(lines) and lines[start + count].startswith(sign):
        count += 1
    return count


def _replaced(old: list[str], new: list[str]) -> list[str]:
    removed: list[str] = []
    added: list[str] = []
    for before, after in zip(old, new, strict=True):
        if len(before) > MAX_WORD_LINE or len(after) > MAX_WORD_LINE:
            left_spans, right_spans = [Span(before[1:], False)], [Span(after[1:], False)]
        else:
            left_spans, right_spans = word_diff(before[1:], after[1:])
        removed.append(_marked("remove", "-", left_spans))
        added.append(_marked("add", "+", right_spans))
    return removed + added


def _marked(name: str, sign: str, spans: list[Span]) -> Markup:
    # A line with nothing in common would be all mark, which adds nothing to its color.
    worth = any(not span.differs and span.text.strip() for span in spans)
    inner = (element("mark", span.text) if span.differs and worth else span.text for span in spans)
    return LINES[name].around(sign, *inner, "\n")


def _line(name: str, line: str) -> str:
    return LINES[name].around(line, "\n") if name else f"{line}\n"


def _class_of(line: str, *, bare: bool = False) -> str:
    if line.startswith("@@"):
        return "hunk"
    if not bare and line.startswith(_HEAD):
        return "head"
    return {"+": "add", "-": "remove"}.get(line[:1], "")
