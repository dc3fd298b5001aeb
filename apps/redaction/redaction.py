"""Replaces what rules find, in text and in JSON, by visible markers."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from apps.redaction.detectors import Check, Span
from apps.redaction.patterns import Pattern
from contract import jsontext

MAX_CPU_SECONDS = 2.0
"""CPU time limit of one call or span. RE2 needs linear time per match, which can't be interrupted (`patterns.MAX_STEPS`), and patterns can be
crafted that need it for each of very many matches.
"""
BLOCK_CHARACTERS = 2_000
MAX_NESTED = 3
"""Levels of JSON strings nested in JSON that are decoded."""
UNCHECKED = "unchecked text"
PROTOCOL = frozenset({"role", "type", "object", "finish_reason", "stop_reason", "status"})
"""Keys in messages and replies whose values are protocol constants."""
WORD = re.compile(r"[A-Za-z_.]{1,40}")
Keep = Callable[[str, Any], bool]
"""Given a key and a value, whether the value stays unchanged."""
BASE64 = re.compile(r"data:[\w/+.;=-]{1,200};base64,[A-Za-z0-9+/=_-]*\Z")
"""A data URL with an image, sound, or document, which isn't searched."""


FILE = re.compile(r"(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR|JVBERi0)[A-Za-z0-9+/=]*\Z")
"""Base64 of a file without its media type: PNG, JPEG, GIF, WebP, PDF, recognized by their first bytes."""


class Rule(NamedTuple):
    """What to replace, ready for use."""

    name: str
    pattern: Pattern
    check: Check


def marker(name: str) -> str:
    return f"[redacted: {name}]"


def is_word_of_protocol(name: str, value: Any) -> bool:
    """Protocol constants in messages and replies, which are kept since a chat without them couldn't be displayed."""
    return name in PROTOCOL and isinstance(value, str) and WORD.fullmatch(value) is not None


def is_file(value: str) -> bool:
    """An image or a document in base64, as in Anthropic's protocol."""
    return FILE.match(value) is not None


def keep_nothing(name: str, value: Any) -> bool:
    return False


class Redaction:
    """One pass over related values, with counts of what it found.

    Most texts are short and have no match, and checking each text against each rule would take longer than reading them. So texts are joined as
    lines and checked together, and individually only if something was found.
    """

    def __init__(self, rules: Sequence[Rule], *, cpu_seconds: float = MAX_CPU_SECONDS) -> None:
        self.found: Counter[str] = Counter()
        """Replaced spans by rule name."""
        self._rules = rules
        self._anchored = [rule for rule in rules if rule.pattern.has_anchors]
        self._others = [rule for rule in rules if not rule.pattern.has_anchors]
        self._changed: dict[tuple[int, str], str] = {}
        """(nesting level, text) -> redacted text, for texts with matches."""
        self._until = time.thread_time() + cpu_seconds

    def value(self, value: Any, *, is_kept: Keep = keep_nothing, level: int = 0) -> Any:
        """A JSON value with matches in its strings, keys, and numbers replaced. is_kept: which values stay unchanged, at any depth;
        if it's given, keys that look like identifiers count as the protocol's and stay, too.
        """
        lines: dict[str, None] = {}
        for text in _texts(value, is_kept):
            if level < MAX_NESTED and text.lstrip()[:1] in ("{", "["):
                self._note(text, self._replaced(self._json(text, level + 1), self._rules), level)
            elif not BASE64.match(text):
                lines[text] = None
        for block in _blocks(lines):
            rules = self._rules if self._is_found("\n".join(map(_plain, block))) else self._anchored
            for text in block if rules else ():
                self._note(text, self._replaced(text, rules), level)
        return self._rebuilt(value, is_kept, level)

    def text(self, text: str) -> str:
        """The redacted text. If it's JSON, matches in its decoded strings are replaced, too."""
        return str(self.value(text))

    def _note(self, text: str, redacted: str, level: int) -> None:
        if redacted != text:
            self._changed[level, text] = redacted

    def _is_found(self, lines: str) -> bool:
        """Whether any line may contain a match; also true if time is up, or the lines are too long for a rule."""
        if time.thread_time() > self._until or not self._may_search(lines, self._others):
            return True
        return any(
            any(True for _ in rule.check(lines, start, end))
            for rule in self._others
            for start, end in rule.pattern.spans(lines)
        )

    def _rebuilt(self, value: Any, is_kept: Keep, level: int) -> Any:
        if isinstance(value, str):
            return self._changed.get((level, value), value)
        if isinstance(value, list):
            return [self._rebuilt(item, is_kept, level) for item in value]
        if isinstance(value, dict):
            redacted: dict[str, Any] = {}
            numbers: Counter[str] = Counter()
            """Uses per key: thousands of keys may get the same marker, and searching for a free suffix from 1 each time would be quadratic."""
            for name, item in value.items():
                shown = marked = name if _is_name(name, is_kept) else self._rebuilt(name, is_kept, level)
                while shown in redacted:  # two keys with the same marker
                    numbers[marked] += 1
                    shown = f"{marked} ({numbers[marked] + 1})"
                redacted[shown] = item if is_kept(name, item) else self._rebuilt(item, is_kept, level)
            return redacted
        if _is_number(value):
            return self._changed.get((level, str(value)), value)
        return value

    def _json(self, text: str, level: int) -> str:
        try:
            value = jsontext.parse(text)
            if jsontext.is_text_too_deep(text, value):
                return text
            redacted = self.value(value, level=level)
            return text if redacted == value else jsontext.dumps(redacted).decode()
        except (jsontext.UnreadableJSON, UnicodeDecodeError):
            return text

    def _replaced(self, text: str, rules: Sequence[Rule]) -> str:
        if time.thread_time() > self._until or not self._may_search(text, rules):
            return self._withheld()
        plain = _plain(text)
        spans: list[tuple[Span, str]] = []
        for rule in rules:
            for start, end in rule.pattern.spans(plain):
                if time.thread_time() > self._until:
                    return self._withheld()
                spans += [(span, rule.name) for span in rule.check(plain, start, end)]
        pieces, at = [], 0
        for (start, end), name in _joined(spans):
            pieces += [text[at:start], marker(name)]
            self.found[name] += 1
            at = end
        return "".join([*pieces, text[at:]])

    def _may_search(self, text: str, rules: Sequence[Rule]) -> bool:
        return all(rule.pattern.longest is None or len(text) <= rule.pattern.longest for rule in rules)

    def _withheld(self) -> str:
        self.found[UNCHECKED] += 1
        return marker(UNCHECKED)


def _texts(value: Any, is_kept: Keep) -> Iterator[str]:
    """Every text in a JSON value, including keys and numbers."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            pending += [name for name in item if not _is_name(name, is_kept)]
            pending += [nested for name, nested in item.items() if not is_kept(name, nested)]
        elif isinstance(item, list):
            pending += item
        elif _is_number(item):
            yield str(item)


def _is_name(name: str, is_kept: Keep) -> bool:
    """Whether it's a key of a protocol."""
    return is_kept is not keep_nothing and WORD.fullmatch(name) is not None


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(text)
        size += len(text)
        if size > BLOCK_CHARACTERS:
            yield block
            block, size = [], 0
    if block:
        yield block


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(text: str) -> str:
    """Replaces each lone surrogate with a question mark, which keeps offsets unchanged."""
    return text.encode("utf-8", "replace").decode()


def _joined(spans: list[tuple[Span, str]]) -> Iterator[tuple[Span, str]]:
    """Merges overlapping spans, under the name of the first and longest."""
    if not spans:
        return
    spans.sort(key=lambda span: (span[0][0], -span[0][1]))
    (start, end), name = spans[0]
    for (next_start, next_end), next_name in spans[1:]:
        if next_start < end:
            end = max(end, next_end)
        else:
            yield (start, end), name
            (start, end), name = (next_start, next_end), next_name
    yield (start, end), name
