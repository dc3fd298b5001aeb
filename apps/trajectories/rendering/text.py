"""Makes text displayable: hidden characters become visible, and long text is cut at natural boundaries."""

from __future__ import annotations

import re
from dataclasses import dataclass

SCREEN_LINES = 24
SCREEN_CHARS = 4_000
CHUNK_LINES = 1_000
CHUNK_CHARS = 48_000
REMNANT_LINES = 6
"""A remainder this short is shown at once: a button would take as much space."""

_LINE_WIDTH = 120
"""Characters of a long line that fill about one line of the page."""

# C0 and C1 controls except tab and newline, lone surrogates, marks that reorder or hide text (Trojan Source), and tags,
# in which whole sentences can be written that only a model reads.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def legible(text: str) -> str:
    r"""Text with nothing hidden: NUL as ␀, escape as ␛, lone surrogates and bidirectional marks as their \u escapes."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return _HIDDEN.sub(_visible_form, text)


def _visible_form(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, limit: int) -> str:
    """The beginning of a text on one line, cut at `limit` characters."""
    line = " ".join(legible(text[: limit * 2]).split())
    return line if len(line) <= limit and len(text) <= limit * 2 else line[: limit - 1].rstrip() + "…"


@dataclass(frozen=True)
class Excerpt:
    """A stretch of a longer text: characters `start` to `end` of `total`."""

    text: str
    start: int
    end: int
    total: int

    @property
    def is_cut(self) -> bool:
        return self.end < self.total


def excerpt(text: str, start: int = 0, *, paragraphs: bool = False) -> Excerpt:
    """A screenful from the start of a text, or a larger chunk at `start`, cut at the end of a line if there is one nearby.

    `paragraphs` cuts at a blank line instead, for text whose lines belong together.
    """
    start = max(0, min(start, len(text)))
    lines, chars = (SCREEN_LINES, SCREEN_CHARS) if start == 0 else (CHUNK_LINES, CHUNK_CHARS)
    end = _end_of_lines(text, start, start + chars, lines)
    if end < len(text):
        end = _nicer_end(text, start, end, "\n\n" if paragraphs else "\n")
        if _is_remnant(text, end):
            end = len(text)
    return Excerpt(text[start:end], start, end, len(text))


def _end_of_lines(text: str, start: int, limit: int, lines: int) -> int:
    """The end of `lines` lines, or `limit`; a very long line counts as the lines that it wraps to."""
    position, budget = start, lines
    while position < limit and budget > 0:
        newline = text.find("\n", position, limit)
        if newline < 0:
            return min(limit, len(text), position + budget * _LINE_WIDTH)
        budget -= 1 + (newline - position) // _LINE_WIDTH
        position = newline + 1
    return min(position, len(text))


def _nicer_end(text: str, start: int, end: int, mark: str) -> int:
    if text[end - 1] == "\n" and mark == "\n":
        return end
    index = text.rfind(mark, start + (end - start) // 2, end)
    if index >= 0:
        return index + len(mark)
    return _nicer_end(text, start, end, "\n") if mark != "\n" else end


def _is_remnant(text: str, end: int) -> bool:
    return len(text) - end <= REMNANT_LINES * _LINE_WIDTH and text.count("\n", end) <= REMNANT_LINES


def size_text(chars: int, lines: int = 0) -> str:
    """The length of a text: "214 lines", or "1.2 million characters" if it has few lines for its length."""
    if lines > 1 and chars < lines * 400:
        return f"{lines:,} lines"
    if chars >= 1_000_000:
        return f"{chars / 1_000_000:.1f} million characters"
    return f"{chars:,} character{'' if chars == 1 else 's'}"
