"""Pieces of Markdown files that people download. Pages are HTML, which templates and `markup` write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def plain(text: str) -> str:
    """Text that cannot break a Markdown line or table: names come from files and people."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Lines, an empty one at the end. Cells of people's text must be `plain`."""
    if not rows:
        return ["Nothing.", ""]
    lines = [head, ("---",) * len(head), *rows]
    return [*("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines), ""]
