"""Markdown for downloadable files. Pages are HTML, written by templates and `markup`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def plain(text: str) -> str:
    """Escape text so that it can't break a Markdown line or table, since names are user input."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """The table's lines, with an empty one at the end. Cells with user input must be `plain`."""
    if not rows:
        return ["Nothing.", ""]
    lines = [head, ("---",) * len(head), *rows]
    return [*("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines), ""]
