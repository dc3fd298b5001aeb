"""Tables as text, such as CSV, as JSON Lines: a row a line, its cells under the names of the first row.

Cells are text; what is empty is left out. Formats read numbers, and yes and no, as they do elsewhere. Where a cell holds a list or an object, as
JSON or as Python and numpy print it (so pandas writes tables), it is one, unless it may be what somebody said.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

from apps.common.nested_json import Unreadable, decode_result
from apps.ingest.files.conversion import Pieces, Unusable
from contract import jsontext

DELIMITERS = (",", "\t", ";")
MOST_CELL_BYTES = 64 << 20
"""A quote that is never closed must not take the rest of the file for a cell."""

csv.field_size_limit(MOST_CELL_BYTES)  # of this process

MOST_PRINTED = 1_000_000
"""Characters of a cell that is read as Python: its parser takes some hundred bytes a character of short literals."""

_WORDS = re.compile(
    r"(prompt|instruction|input|query|post|response|completion|output|answer|chosen|rejected|solution|text|content|message$|action|obs|thought)",
    re.IGNORECASE,
)
"""Columns, by the beginnings of their names, whose text somebody said: a call in JSON, say, is a whole answer."""

_SPEAKERS = {"role", "from"}

_PRINTED = re.compile(
    r"""(?P<kept>'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+"|\\.)
      | (?P<array>\barray(?=\(\[)) | (?P<type>(?<=\]),\s*dtype=\w+(?=\))) | (?P<gap>(?<=['"}\]])\s++(?=['"{\[]))""",
    re.VERBOSE,
)
"""What numpy prints otherwise than Python: `array([…], dtype=object)`, and space for commas, where Python would make one
text of two. Strings are passed over; escapes outside of them, too, lest each of many quotes be looked at as the beginning of one."""

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
                yield _line({name: _value(name, cell) for name, cell in cells.items()}, cells) + b"\n"
    except csv.Error as error:
        raise Unusable(f"a table that breaks at line {rows.line_num:,} ({error})") from None
    except UnicodeDecodeError:
        raise Unusable(f"a table that is not UTF-8 after line {rows.line_num:,}. Save it as UTF-8") from None


def _line(values: dict[str, Any], cells: dict[str, str]) -> bytes:
    try:
        return jsontext.dumps(values)
    except jsontext.UnreadableJSON:  # nested too deeply
        return jsontext.dumps(cells)


def _value(name: str, cell: str) -> Any:
    """The list or object in a cell; its text where it holds none, or may be what somebody said."""
    if cell.lstrip()[:1] not in ("[", "{"):
        return cell
    try:
        value = jsontext.parse(cell)
    except jsontext.UnreadableJSON:
        try:
            value = decode_result(_PRINTED.sub(_as_python, cell), most_python=MOST_PRINTED)
        except Unreadable:
            return cell
    if not isinstance(value, dict | list) or (_WORDS.match(name) and not _is_chat(value)):
        return cell
    return value


def _as_python(found: re.Match[str]) -> str:
    return found["kept"] or ("," if found["gap"] else "")


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, dict) and not _SPEAKERS.isdisjoint(each) for each in value)
    )
