"""Tables as text, such as CSV, as JSON Lines: a row a line, its cells under the names of the first row.

Cells are text; what is empty is left out. Formats read numbers, yes and no, and JSON in text as they do elsewhere.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from apps.trajectories import jsontext
from apps.trajectories.files.turning import Pieces, Unusable

DELIMITERS = (",", "\t", ";")
MOST_CELL_BYTES = 64 << 20
"""A quote that is never closed must not take the rest of the file for a cell."""

csv.field_size_limit(MOST_CELL_BYTES)  # of this process

_NAME = re.compile(r"\s*[^\W\d][\w .:/()\[\]-]{0,79}")


def delimiter_of(head: bytes, *, is_whole: bool) -> str | None:
    """What parts the cells of a table; None where the beginning of the file (`is_whole`: all of it) is no table."""
    text = head.decode("utf-8", "replace")
    for delimiter in DELIMITERS:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            names, first, after = next(rows, []), next(rows, None), next(rows, None)
        except csv.Error:
            continue
        is_cut = after is None and not is_whole
        if first is not None and _are_names(names) and (len(first) == len(names) or is_cut):
            return delimiter
    return None


class Sheet(Pieces):
    """Reads the table row by row."""

    def __init__(self, stream: io.BufferedReader, delimiter: str) -> None:
        super().__init__(_lines(io.TextIOWrapper(stream, encoding="utf-8", newline=""), delimiter))


def _are_names(cells: list[str]) -> bool:
    return len(cells) > 1 and len({*cells}) == len(cells) and all(map(_NAME.fullmatch, cells))


def _lines(text: io.TextIOWrapper, delimiter: str) -> Iterator[bytes]:
    rows = csv.reader(text, delimiter=delimiter)
    try:
        names = [name.strip() for name in next(rows)]
        for row in rows:
            if row:
                cells = {name: cell for name, cell in zip(names, row, strict=False) if cell}
                yield jsontext.dumps(cells) + b"\n"
    except csv.Error as error:
        raise Unusable(f"a table that breaks at line {rows.line_num:,} ({error})") from None
    except UnicodeDecodeError:
        raise Unusable(f"a table that is not UTF-8 after line {rows.line_num:,}. Save it as UTF-8") from None
