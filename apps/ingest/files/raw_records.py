"""Splits a stream of bytes into records, with at most one of them in memory.

Three layouts occur: one record per line (JSON Lines), one JSON list of records, and consecutive whole JSON values (a
pretty-printed object; `jq` output). Lists are split here instead of by a streaming parser: records stay byte for
byte as written, one broken record doesn't end the file, and lone surrogates survive (yajl replaces them).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from contract import jsontext

BLOCK = 1 << 20
EXCERPT = 2000
"""Bytes kept of a record that is too long to read."""

_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{}"]?)', re.DOTALL)
"""Matches up to the next bracket outside strings; stops at the quote of a string that continues beyond the buffer."""

_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_SCALAR_END = re.compile(rb"[,\]\s]")
_LINE_END = re.compile(rb"\n")

DEEPEST = 10_000
"""Nesting levels whose brackets are matched by kind; deeper ones are only counted, so that hostile nesting costs no memory."""


class Layout(StrEnum):
    """How records are laid out in a file."""

    LINES = "lines"
    LIST = "list"
    VALUES = "values"


class RawRow(NamedTuple):
    """A record as written. If it has a `problem`, it can't be read, and `body` is its beginning."""

    position: int  # index among the file's records, from 0
    line: int  # the line it starts on, from 1; in a JSON list its number; 0 for a file as a whole
    body: bytes
    problem: str = ""
    file: str = ""  # in an archive, the path of the file that holds it


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


def split(stream: Readable, layout: Layout, *, limit: int) -> Iterator[RawRow]:
    """The records of a stream. A record longer than `limit` bytes is skipped and reported as a problem."""
    if layout is Layout.LINES:
        return _lines(stream, limit)
    return _Scanner(stream, limit, in_list=layout is Layout.LIST).rows()


def too_long(limit: int) -> str:
    return f"Longer than {limit >> 20:,} MiB, the most that one record may have."


def as_one(rows: Iterator[RawRow], limit: int) -> Iterator[RawRow]:
    """All rows as a single list, the last record; rows that can't be read, such as a truncated line, come before it individually."""
    bodies: list[bytes] = []
    size = position = 0
    for row in rows:
        if problem := row.problem or _unreadable(row.body):
            yield RawRow(position, row.line, row.body[:EXCERPT], problem)
            position += 1
            continue
        size += len(row.body) + 1
        if size > limit:
            together = f"Its lines are one record, and together longer than {limit >> 20:,} MiB. Split the file by trajectories."
            yield RawRow(position, row.line, row.body[:EXCERPT], together)
            return
        bodies.append(row.body.strip())
    if bodies:
        yield RawRow(position, 1, b"[" + b",".join(bodies) + b"]")


def grouped(rows: Iterator[RawRow], limit: int, begins: Callable[[Any, Any], bool]) -> Iterator[RawRow]:
    """Groups consecutive rows into lists, one group in memory at a time; `begins(last, row)` says whether a row starts a new group."""
    group: list[RawRow] = []
    last: Any = None
    position = size = 0
    for row in rows:
        problem, value = row.problem, None
        if not problem:
            try:
                value = jsontext.loads(row.body)
            except jsontext.UnreadableJSON as error:
                problem = str(error)
        if problem:
            yield RawRow(position, row.line, row.body[:EXCERPT], problem)
            position += 1
            continue
        if group and begins(last, value):
            yield _merged(group, position, size, limit)
            position += 1
            group, size = [], 0
        size += len(row.body) + 1
        if size <= limit or not group:
            group.append(row)
        last = value
    if group:
        yield _merged(group, position, size, limit)


def _merged(group: list[RawRow], position: int, size: int, limit: int) -> RawRow:
    first = group[0]
    if size > limit:
        return RawRow(position, first.line, first.body[:EXCERPT], too_long(limit))
    return RawRow(position, first.line, b"[" + b",".join(row.body.strip() for row in group) + b"]")


def _unreadable(body: bytes) -> str:
    try:
        jsontext.loads(body)
    except jsontext.UnreadableJSON as error:
        return str(error)
    return ""


def _lines(stream: Readable, limit: int) -> Iterator[RawRow]:
    position = line = 0
    while body := stream.readline(limit + 1):
        line += 1
        if len(body) > limit:
            head = body[:EXCERPT]
            while body and not body.endswith(b"\n"):
                body = stream.readline(BLOCK)
            yield RawRow(position, line, head, too_long(limit))
            position += 1
        elif not body.isspace():
            yield RawRow(position, line, body)
            position += 1


class _Scanner:
    """Tracks the brackets of JSON values, block by block. Reads each byte once and holds only the current record."""

    def __init__(self, stream: Readable, limit: int, *, in_list: bool) -> None:
        self._stream = stream
        self._limit = limit
        self._in_list = in_list
        self._buffer = b""
        self._at = 0
        self._line = 1
        self._counted = 0  # _line includes the newlines before this offset of the buffer
        self._position = 0

    def rows(self) -> Iterator[RawRow]:
        if self._in_list:
            self._next_byte()
            self._at += 1  # the opening bracket
        needs_comma = False
        while True:
            byte = self._next_byte()
            if byte is None:
                if self._in_list:
                    yield self._row(b"", "The file ends before the list does: it was cut off.")
                return
            if self._in_list and byte == b",":
                if not needs_comma:
                    yield self._row(b",", "A comma with no record before it.")
                needs_comma = False
                self._at += 1
            elif self._in_list and byte == b"]":
                self._at += 1
                if not needs_comma and self._position:
                    yield self._row(b",]", "A comma with no record after it.")
                self._in_list = False
            elif byte in b"{[":
                yield self._value()
                needs_comma = True
            else:
                yield self._scalar()
                needs_comma = True

    def _row(self, body: bytes, problem: str = "", line: int = 0) -> RawRow:
        number = self._position + 1 if self._in_list else line or self._line_now()
        row = RawRow(self._position, number, body, problem)
        self._position += 1
        return row

    def _line_now(self) -> int:
        self._line += self._buffer.count(b"\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _fill(self) -> bool:
        """Replace the used-up buffer with the next block; False at the end of the file."""
        self._line_now()
        self._buffer = self._stream.read(BLOCK)
        self._at = self._counted = 0
        return bool(self._buffer)

    def _next_byte(self) -> bytes | None:
        while True:
            match = _BLANKS.match(self._buffer, self._at)
            assert match is not None, "the pattern may be empty"
            self._at = match.end()
            if self._at < len(self._buffer):
                return self._buffer[self._at : self._at + 1]
            if not self._fill():
                return None

    def _value(self) -> RawRow:
        """The object or list that starts here."""
        line = self._line_now()
        buffer = _Buffer(self._limit)
        closers = bytearray()
        deeper = 0
        start = self._at
        while True:
            match = _TO_BRACKET.match(self._buffer, self._at)
            assert match is not None, "every part of the pattern may be empty"
            bracket = match[1]
            self._at = match.end()
            if bracket == b"":
                buffer.add(self._buffer[start:])
                if not self._fill():
                    return self._cut_off(buffer, line)
                start = 0
            elif bracket == b'"':
                if not self._rest_of_string(buffer, start):
                    return self._cut_off(buffer, line)
                start = self._at
            elif bracket in b"{[":
                if len(closers) < DEEPEST:
                    closers.append(0x7D if bracket == b"{" else 0x5D)
                else:
                    deeper += 1
            elif deeper:
                deeper -= 1
            elif bracket[0] == closers.pop():
                if not closers:
                    buffer.add(self._buffer[start : self._at])
                    return self._row(buffer.body(), too_long(self._limit) if buffer.is_over else "", line)
            else:
                buffer.add(self._buffer[start : self._at])
                return self._lost_its_way(buffer, line)

    def _cut_off(self, buffer: _Buffer, line: int) -> RawRow:
        row = self._row(buffer.body(), "The file ends inside this record: it was cut off.", line)
        self._in_list = False
        return row

    def _rest_of_string(self, buffer: _Buffer, start: int) -> bool:
        """Skip a string that continues beyond the buffer; False if the file ends inside it."""
        # A backslash at the end of the buffer would be separated from the character it escapes, so `tail` carries it over.
        match = _REST_OF_STRING.match(self._buffer, self._at)
        while True:
            assert match is not None, "every part of the pattern may be empty"
            if match[1]:
                buffer.add(self._buffer[start : match.end()])
                self._at = match.end()
                return True
            tail = self._buffer[match.end() :]
            buffer.add(self._buffer[start : match.end()])
            if not self._fill():
                buffer.add(tail)
                return False
            self._buffer = tail + self._buffer
            start = 0
            match = _REST_OF_STRING.match(self._buffer)

    def _lost_its_way(self, buffer: _Buffer, line: int) -> RawRow:
        """A mismatched bracket: the start of the next record is unknown, except at the beginning of a line."""
        problem = "Its brackets do not match."
        while True:
            end = self._buffer.find(b"\n", self._at)
            if end >= 0 and not self._in_list:
                self._at = end + 1
                return self._row(buffer.body(), problem, line)
            self._at = len(self._buffer)
            if not self._fill():
                rest = " The records after it could not be told apart." if self._in_list else ""
                self._in_list = False
                return RawRow(self._position, self._position + 1 if rest else line, buffer.body(), problem + rest)

    def _scalar(self) -> RawRow:
        """A number, a bare string, or garbage between records."""
        line = self._line_now()
        if self._buffer[self._at : self._at + 1] == b'"':
            buffer, start = _Buffer(self._limit), self._at
            self._at += 1
            if not self._rest_of_string(buffer, start):
                return self._cut_off(buffer, line)
            return self._row(buffer.body(), too_long(self._limit) if buffer.is_over else "", line)
        ends = _SCALAR_END if self._in_list else _LINE_END
        body, start = b"", self._at
        match = ends.search(self._buffer, start + 1)
        while not match:
            body = (body + self._buffer[start:])[:EXCERPT]
            if not self._fill():
                return self._row(body, line=line)
            start = 0
            match = ends.search(self._buffer)
        self._at = match.start()
        return self._row((body + self._buffer[start : self._at])[:EXCERPT], line=line)


class _Buffer:
    """The bytes of the current record, up to the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def is_over(self) -> bool:
        return self._size > self._limit

    def add(self, part: bytes) -> None:
        self._size += len(part)
        if not self.is_over:
            self._parts.append(part)
        elif self._parts:
            self._parts = [b"".join(self._parts)[:EXCERPT]]

    def body(self) -> bytes:
        return b"".join(self._parts)
