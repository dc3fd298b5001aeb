"""What commands print: results on stdout, progress on stderr and only where somebody watches."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from retrace.core.request import Progress

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and what makes a terminal write lines backward."""


class Output:
    """Prints for people, or with `--json` for programs."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json
        self._watched = sys.stderr.isatty()
        self._shown = False

    def one(self, answer: BaseModel | dict[str, Any], text: str) -> None:
        """One answer: as a JSON object, or as `text`."""
        self.end_progress()
        print(harmless(_json(answer) if self.is_json else text))

    def table(self, answers: Iterable[BaseModel], columns: Sequence[str]) -> None:
        """A list, as it comes: JSON Lines, or one line each with tabs between `columns`."""
        for answer in answers:
            facts = answer.model_dump(mode="json")
            cells = (_cell(facts[name]).replace("\t", " ").replace("\n", " ") for name in columns)
            print(harmless(_json(answer) if self.is_json else "\t".join(cells)))

    def progress(self, progress: Progress) -> None:
        """Rewrite the line that says how far it is."""
        if not self._watched:
            return
        done, total, unit = progress
        share = f" ({100 * done // total} %)" if total else ""
        of = f" of {total:,}" if total else ""
        print(f"\r\033[K{done:,}{of} {unit}{share}", end="", file=sys.stderr, flush=True)
        self._shown = True

    def end_progress(self) -> None:
        """Remove that line."""
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._shown = False


def harmless(text: str) -> str:
    """As JSON escapes what a terminal would obey or can't write: names and trajectories may come from anywhere."""
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def facts(answer: BaseModel, names: Sequence[str]) -> str:
    """One fact a line. What is empty is left out."""
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
