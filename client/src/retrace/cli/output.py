"""Command output: results on stdout; progress on stderr, and only on a terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from retrace.core.request import Progress

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters and characters that reorder text on a terminal."""


class Output:
    """Prints text, or JSON with `--json`."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json
        self._watched = sys.stderr.isatty()
        self._shown = False

    def one(self, answer: BaseModel | dict[str, Any], text: str) -> None:
        """Print one result as a JSON object or as `text`."""
        self.end_progress()
        print(harmless(_json(answer) if self.is_json else text))

    def table(self, answers: Iterable[BaseModel], columns: Sequence[str]) -> None:
        """Print a list as it arrives: JSON Lines, or one line per entry with `columns` separated by tabs."""
        for answer in answers:
            fields = answer.model_dump(mode="json")
            cells = (_cell(fields[name]).replace("\t", " ").replace("\n", " ") for name in columns)
            print(harmless(_json(answer) if self.is_json else "\t".join(cells)))

    def progress(self, progress: Progress) -> None:
        """Rewrite the progress line."""
        if not self._watched:
            return
        done, total, unit = progress
        share = f" ({100 * done // total} %)" if total else ""
        of = f" of {total:,}" if total else ""
        print(f"\r\033[K{done:,}{of} {unit}{share}", end="", file=sys.stderr, flush=True)
        self._shown = True

    def end_progress(self) -> None:
        """Remove the progress line."""
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._shown = False


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun; `many` is needed for nouns that don't take an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def harmless(text: str) -> str:
    """Escape control characters and unencodable ones as JSON does: names and trajectories may come from anywhere."""
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def facts(answer: BaseModel, names: Sequence[str]) -> str:
    """One fact per line, without empty ones."""
    dumped = answer.model_dump(mode="json")
    shown = {name: dumped[name] for name in names if dumped[name] not in (None, "", [], {})}
    width = max(map(len, shown), default=0)
    return "\n".join(f"{name.replace('_', ' '):<{width}}  {_cell(value)}" for name, value in shown.items())


def _cell(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _json(answer: BaseModel | dict[str, Any]) -> str:
    return json.dumps(answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer, ensure_ascii=False)
