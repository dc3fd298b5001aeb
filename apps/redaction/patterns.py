"""Regular expressions in RE2, which match in linear time, whatever the pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import re2

MAX_PATTERN_LENGTH = 500
LARGEST_PROGRAM = 10_000
"""Maximum number of instructions. A short pattern may have very many: (?:\\pL{100}){100}."""
MAX_MEMORY = 4 << 20
"""Memory limit in bytes of one compiled pattern with its cached DFA states."""
MAX_STEPS = 200_000_000
"""Limit per search of a user-supplied pattern: instructions times characters. RE2 needs that many in its NFA fallback, at 5 to 12 ns each."""
EVERYTHING = r"(?s).+"
_ANCHORS = re.compile(r"[\^$]|\\[Az]")
"""What matches only at the ends of a text. A caret in a character class also counts, which only costs time."""


class PatternRefused(ValueError):
    """The pattern can't be used; the message says why."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, source: str, *, most_steps: int | None = None) -> None:
        """most_steps: limit per search; None if the pattern is known to have few states. Raises PatternRefused."""
        self.has_anchors = bool(_ANCHORS.search(source))
        """Whether its matches in a text may change if the text is joined with other lines."""
        options = re2.Options()
        options.max_mem, options.log_errors, options.never_capture = MAX_MEMORY, False, True
        try:
            self._compiled: Any = re2.compile(source, options)
        except re2.error as problem:
            message = problem.args[0] if problem.args else ""
            message = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
            raise PatternRefused(f"RE2 can't read this pattern: {message}.") from None
        self.longest = None if most_steps is None else most_steps // max(self.size, 1)
        """Maximum length of a text to search in characters; None if unlimited."""

    @property
    def size(self) -> int:
        """Number of instructions of its program."""
        return int(self._compiled.programsize)

    @property
    def matches_nothing(self) -> bool:
        """Whether it matches an empty text."""
        return self._compiled.search("") is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each nonempty match, in order. text: without lone surrogates."""
        for match in self._compiled.finditer(text):
            if match.end() > match.start():
                yield match.span()


def checked(source: str) -> Pattern:
    """Compile a user-supplied pattern. Raises PatternRefused if it's invalid, too large, or also matches empty text."""
    if len(source) > MAX_PATTERN_LENGTH:
        raise PatternRefused(f"The pattern has {len(source):,} characters; at most {MAX_PATTERN_LENGTH} are allowed.")
    pattern = Pattern(source, most_steps=MAX_STEPS)
    if pattern.size > LARGEST_PROGRAM:
        raise PatternRefused(
            f"The pattern amounts to {pattern.size:,} instructions; at most {LARGEST_PROGRAM:,} are allowed."
        )
    if pattern.matches_nothing:
        raise PatternRefused("The pattern matches an empty text. Let it ask for at least one character.")
    return pattern
