"""Finds template lines that are too long but could be broken.

.venv/bin/python .ci/template_lines.py

A line can be broken at whitespace between words, tags, and attributes. Template tags, attribute values, and the content
of <pre> and <textarea> are left whole, however long they are.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MOST = 120
PIECE = re.compile(
    r"(?P<whole>{%.*?%}|{{.*?}}|{#.*?#})|(?P<exact><(?P<name>pre|textarea|script|style)\b)"
    r"|(?P<tag></?[a-zA-Z])|(?P<rest>.)",
    re.S,
)


class Finding(NamedTuple):
    """A line that is too long but could be broken."""

    path: str
    line: int
    columns: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.columns} columns, of at most {MOST}; break it at white space."


def long_lines(path: str, source: str) -> Iterator[Finding]:
    """Every line of more than MOST columns with a possible break."""
    breaks = set(_breaks(source))
    position = 0
    for number, line in enumerate(source.split("\n"), start=1):
        indent = len(line) - len(line.lstrip())
        inside = range(position + indent, position + len(line.rstrip()))
        if len(line) > MOST and not breaks.isdisjoint(inside):
            yield Finding(path, number, len(line))
        position += len(line) + 1


def _breaks(source: str) -> Iterator[int]:
    """Positions of whitespace where a line can be broken."""
    position, quote, in_tag, exact = 0, "", False, ""
    while match := PIECE.match(source, position):
        at, position = position, match.end()
        if exact and not in_tag:
            position = source.find(f"</{exact}", at)
            if position < 0:
                return
            exact = ""
        elif match["whole"]:
            continue
        elif not in_tag and (match["exact"] or match["tag"]):
            in_tag, exact = True, match["name"] or ""
        elif in_tag and (quote or match["rest"] in ("'", '"', ">")):
            if quote:
                quote = "" if match[0] == quote else quote
            elif match[0] == ">":
                in_tag = False
            else:
                quote = match[0]
        elif match[0].isspace():
            yield at


def findings(root: Path = ROOT) -> list[Finding]:
    """All findings in the templates."""
    return [
        finding
        for path in sorted([*(root / "templates").rglob("*.html"), *(root / "templates").rglob("*.jinja")])
        for finding in long_lines(path.relative_to(root).as_posix(), path.read_text())
    ]


if __name__ == "__main__":
    problems = findings()
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
