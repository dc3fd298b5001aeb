"""Regular expressions as RE2 reads them: each search takes time in proportion to the text, whatever the pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import re2

LONGEST_PATTERN = 500
LARGEST_PROGRAM = 10_000
"""Instructions. A short pattern may have very many: (?:\\pL{100}){100}."""
MOST_MEMORY = 4 << 20
"""Bytes of one compiled pattern, with the states that it meets."""
MOST_STEPS = 200_000_000
"""Of one search by a pattern that somebody wrote: instructions times characters. RE2 takes as many where too many states are met, at 5 to 12 ns each."""
EVERYTHING = r"(?s).+"
_ANCHORS = re.compile(r"[\^$]|\\[Az]")
"""What may hold at the ends of a text alone. A caret in a class counts, too, which costs time and nothing else."""


class PatternRefused(ValueError):
    """Why a pattern can't be used, in words."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, source: str, *, most_steps: int | None = None) -> None:
        """most_steps: of one search; None where it's known to meet few states. Raises PatternRefused."""
        self.has_anchors = bool(_ANCHORS.search(source))
        """It may match a text, and not the same text between lines of others."""
        options = re2.Options()
        options.max_mem, options.log_errors, options.never_capture = MOST_MEMORY, False, True
        try:
            self._compiled: Any = re2.compile(source, options)
        except re2.error as problem:
            words = problem.args[0] if problem.args else ""
            words = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
            raise PatternRefused(f"RE2 can't read this pattern: {words}.") from None
        self.longest = None if most_steps is None else most_steps // max(self.size, 1)
        """Characters of a text that it may be searched for in; None: as many as there are."""

    @property
    def size(self) -> int:
        """Instructions of its program."""
        return int(self._compiled.programsize)

    @property
    def matches_nothing(self) -> bool:
        """Whether an empty text matches."""
        return self._compiled.search("") is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each match that isn't empty, one behind the other. text: without lone surrogates."""
        for match in self._compiled.finditer(text):
            if match.end() > match.start():
                yield match.span()


def checked(source: str) -> Pattern:
    """A pattern that somebody wrote. Raises PatternRefused for what can't be read, is too large, or also matches nothing."""
    if len(source) > LONGEST_PATTERN:
        raise PatternRefused(f"The pattern has {len(source):,} characters; {LONGEST_PATTERN} fit.")
    pattern = Pattern(source, most_steps=MOST_STEPS)
    if pattern.size > LARGEST_PROGRAM:
        raise PatternRefused(f"The pattern amounts to {pattern.size:,} instructions; {LARGEST_PROGRAM:,} fit.")
    if pattern.matches_nothing:
        raise PatternRefused("The pattern matches an empty text. Let it ask for at least one character.")
    return pattern
