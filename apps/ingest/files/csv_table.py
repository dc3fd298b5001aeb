"""Converts text tables such as CSV to JSON Lines: one object per row, with the first row's cells as keys.

Cells are text; empty ones are left out. Formats parse numbers and booleans as they do elsewhere. A cell that holds a list or an object, as
JSON or as Python and numpy print it (as pandas writes tables), is parsed, unless it may be the text of a message.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from apps.common.nested_json import Unreadable, decode_result
from apps.ingest.files.conversion import Pieces, Unusable
from contract import jsontext

DELIMITERS = (",", "\t", ";")
MAX_CELL_BYTES = 64 << 20
"""Keeps an unclosed quote from reading the rest of the file as one cell, and a line without an end from filling the memory."""

MAX_ROW_BYTES = 128 << 20
"""Keeps cells with line breaks, each of them short, from reading the rest of the file as one row."""

csv.field_size_limit(MAX_CELL_BYTES)  # process-wide

MAX_PRINTED = 1_000_000
"""Maximum characters of a cell parsed as Python: the parser takes some hundred bytes per character of short literals."""

_WORDS = re.compile(
    r"(prompt|instruction|input|query|post|response|completion|output|answer|chosen|rejected|solution|text|content|message$|action|obs|thought)",
    re.IGNORECASE,
)
"""Prefixes of names of columns that hold message text: a call in JSON, for example, can be a complete answer."""

_SPEAKERS = {"role", "from"}

_PRINTED = re.compile(
    r"""(?P<kept>'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+"|\\.)
      | (?P<array>\barray(?=\(\[)) | (?P<type>(?<=\]),\s*dtype=\w+(?=\))) | (?P<gap>(?<=['"}\]])\s++(?=['"{\[]))""",
    re.VERBOSE,
)
"""Where numpy's output differs from Python's: `array([…], dtype=object)`, and spaces instead of commas, where Python would concatenate
two strings. Strings are skipped; so are escapes outside them, so that each of many quotes isn't tried as the start of a string."""

_NAME = re.compile(r"\s*[^\W\d][\w .:/()\[\]-]{0,79}")


def delimiter_of(head: bytes, *, is_whole: bool) -> str | None:
    """The delimiter of a table; None if the beginning of the file (`is_whole`: all of it) isn't one."""
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


class Place(NamedTuple):
    """Where a row is in the table, and what is wrong with it, if anything."""

    line: int  # on which it starts, from 1
    problem: str


class Sheet(Pieces):
    """Reads a text table row by row."""

    def __init__(self, stream: io.BufferedReader, delimiter: str) -> None:
        self.places: deque[Place] = deque()
        """One for each row that was converted. The reader takes them from the left; conversion is at most one block ahead."""
        self._row_bytes = 0
        self._is_at_end = False
        super().__init__(self._rows(csv.reader(self._lines(stream), delimiter=delimiter)))

    def _lines(self, stream: io.BufferedReader) -> Iterator[str]:
        number = 0
        while line := stream.readline(MAX_CELL_BYTES):
            number += 1
            if len(line) == MAX_CELL_BYTES and not line.endswith(b"\n"):
                raise Unusable(f"a table that breaks at line {number:,} (longer than {MAX_CELL_BYTES >> 20} MiB)")
            self._row_bytes += len(line)
            if self._row_bytes > MAX_ROW_BYTES:
                raise Unusable(
                    f"a table that breaks at line {number:,} (its row is longer than {MAX_ROW_BYTES >> 20} MiB)"
                )
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise Unusable(f"a table that is not UTF-8 at line {number:,}. Save it as UTF-8") from None
            yield from io.StringIO(text, newline="")  # a carriage return alone ends a line, too
        self._is_at_end = True

    def _rows(self, rows: Any) -> Iterator[bytes]:
        try:
            names = [name.strip() for name in next(rows)]
            start = rows.line_num + 1
            for row in rows:
                self._row_bytes = 0
                if self._is_at_end:  # and the row isn't: the reader wanted another line
                    raise Unusable(f"a table in which a quote is never closed, in the row at line {start:,}")
                if row:
                    self.places.append(Place(start, _problem(row, names)))
                    cells = {name: cell for name, cell in zip(names, row, strict=False) if name and cell}
                    yield _line({name: _value(name, cell) for name, cell in cells.items()}, cells) + b"\n"
                start = rows.line_num + 1
        except csv.Error as error:
            raise Unusable(f"a table that breaks at line {rows.line_num:,} ({error})") from None


def _are_names(cells: list[str]) -> bool:
    """Whether these can be the names of columns. The first may be blank: pandas numbers the rows there."""
    named = cells if cells[:1] != [""] else cells[1:]
    return len(cells) > 1 and len({cell.strip() for cell in cells}) == len(cells) and all(map(_NAME.fullmatch, named))


def _problem(row: list[str], names: list[str]) -> str:
    """A delimiter in a cell without quotes moves all cells after it: they'd be read as something else."""
    if not any(row[len(names) :]):
        return ""
    return f"It has {len(row):,} cells, but there are {len(names):,} columns. A cell that contains the delimiter needs quotes around it."


def _line(values: dict[str, Any], cells: dict[str, str]) -> bytes:
    try:
        return jsontext.dumps(values)
    except jsontext.UnreadableJSON:  # nested too deeply
        return jsontext.dumps(cells)


def _value(name: str, cell: str) -> Any:
    """The list or object in a cell; the cell's text if it holds none or may be message text."""
    if cell.lstrip()[:1] not in ("[", "{"):
        return cell
    try:
        value = jsontext.parse(cell)
    except jsontext.UnreadableJSON:
        try:
            value = decode_result(_PRINTED.sub(_as_python, cell), most_python=MAX_PRINTED)
        except Unreadable:
            return cell
    if not isinstance(value, dict | list) or (_WORDS.match(name) and not _is_chat(value)):
        return cell
    return value


def _as_python(match: re.Match[str]) -> str:
    return match["kept"] or ("," if match["gap"] else "")


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(message, dict) and not _SPEAKERS.isdisjoint(message) for message in value)
    )
