"""Opens an uploaded file: decompresses it, refuses what isn't text, and detects the layout of its records.

Inspect's archives, Parquet files, and text tables are converted to JSON on the way. Nested archives, pickles, and the like are refused by their
first bytes, with advice. Nothing is ever unpickled.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, NamedTuple

import zstandard

from apps.ingest.files.conversion import Pieces, Unusable
from apps.ingest.files.csv_table import Place, Sheet, delimiter_of
from apps.ingest.files.inspect_archive import ZIP, EvalArchive
from apps.ingest.files.parquet import PARQUET, Table
from apps.ingest.files.raw_records import BLOCK, Layout, RawRow, split
from contract import jsontext


class Limits(NamedTuple):
    """Limits in bytes."""

    unpacked: int = 100 << 30
    """Unpacked size of a compressed file, or of all files in an archive together."""

    record: int = 128 << 20
    """Size of one record, which is the most held in memory at once."""


USUAL = Limits()


HEAD = 1 << 20
"""Bytes examined to detect the layout."""

RATIO = 500
"""Maximum compression ratio; logs reach 50, and deflate can't exceed about 1,030."""

RATIO_FROM = 256 << 20
"""Unpacked size above which the ratio is checked."""


class UnreadableFile(ValueError):
    """Why a file can't be read, worded for the person who sent it."""


_REFUSED: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a zip archive packed again. Unpack it once"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"PAR1", "a Parquet file packed again. Unpack it once"),
    (b"ARROW1", "an Arrow file. Write it as JSON Lines"),
    (b"BZh", "packed with bzip2. Unpack it, or pack it with gzip"),
    (b"\xfd7zXZ\x00", "packed with xz. Unpack it, or pack it with gzip"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive. Unpack it and import the files inside"),
    (b"Rar!", "a RAR archive. Unpack it and import the files inside"),
    (b"SQLite format 3\x00", "a SQLite database. Export the rows as JSON Lines"),
    (b"\x93NUMPY", "a NumPy file. Write it as JSON Lines"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"<!DOCTYPE", "a web page; perhaps the download needed a sign-in"),
    (b"<!doctype", "a web page; perhaps the download needed a sign-in"),
    (b"<html", "a web page; perhaps the download needed a sign-in"),
    (
        b"# aider chat started",
        "aider's chat history: Markdown, in which the model's replies look like aider's own messages. Log aider's model calls as "
        "JSON Lines, for example with the proxy LiteLLM, and import those",
    ),
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff", b"{\x00", b"\x00{", b"[\x00", b"\x00[")
_BOM = b"\xef\xbb\xbf"
ZSTD_BYTES = 1 << 10
"""Bytes unpacked at a time: four can stand for 128 KiB."""
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(slots=True)
class Source:
    """An open file of records. `rows` reads it once, from the start."""

    stream: io.BufferedReader
    layout: Layout
    counter: _Counting
    places: deque[Place] | None = None
    """For text tables, which are converted: where each row is in the file."""

    def rows(self, *, limit: int) -> Iterator[RawRow]:
        """The records, one at a time. Raises UnreadableFile if decompression fails."""
        rows = split(self.stream, self.layout, limit=limit)
        return rows if self.places is None else map(partial(_placed, self.places), rows)

    @property
    def bytes_read(self) -> int:
        """Bytes of the file on disk read so far."""
        return self.counter.count


def _placed(places: deque[Place], row: RawRow) -> RawRow:
    place = places.popleft()
    return row._replace(line=place.line, problem=row.problem or place.problem)


def open_source(file: IO[bytes], *, most_bytes: int, layout: Layout | None = None) -> Source:
    """Open a file from its start. Raises UnreadableFile if it isn't JSON text in a known layout.

    `most_bytes` limits its unpacked size; `layout` overrides detection.
    """
    counter = _Counting(file)
    turned = _turned(file, counter)
    if turned is not None:
        stream = _bounded(turned.stream, counter, most_bytes)
        layout = layout or turned.layout
    else:
        stream = _unpacked(io.BufferedReader(counter, BLOCK), counter, most_bytes)
    # One read of the raw stream fills the buffer (see _Bounded), so this is the whole head.
    head = stream.peek(HEAD)[:HEAD]
    if head.startswith(_BOM):
        stream.read(len(_BOM))
        head = head[len(_BOM) :]
    _refuse(head)
    is_whole = len(head) < HEAD - len(_BOM)
    if layout is None and head.lstrip()[:1] not in b"{[" and (delimiter := delimiter_of(head, is_whole=is_whole)):
        sheet = Sheet(stream, delimiter)
        rows = _bounded(io.BufferedReader(sheet, BLOCK), counter, most_bytes)
        return Source(stream=rows, layout=Layout.LINES, counter=counter, places=sheet.places)
    detected = layout_of(head, is_whole=is_whole)
    return Source(stream=stream, layout=layout or detected, counter=counter)


def layout_of(head: bytes, *, is_whole: bool) -> Layout:
    """Detect the layout from a file's beginning (`is_whole`: the whole file)."""
    lines = [line for line in head.split(b"\n") if not line.isspace() and line]
    if not lines:
        raise UnreadableFile("The file is empty.")
    complete = lines if is_whole else lines[:-1]
    first = lines[0].lstrip()
    if first[:1] not in b"{[":
        raise UnreadableFile(
            f"The file starts with {first[:40].decode('utf-8', 'replace')!r}, which is not JSON. "
            f"Expected JSON Lines (one object per line), a JSON list, a JSON object, or a table with names in its first row."
        )
    if lines[0].strip() == b"[":
        return Layout.LIST
    if lines[0].strip() == b"{":
        return Layout.VALUES
    if complete and _is_json(complete[0]):
        return Layout.LIST if first.startswith(b"[") and is_whole and len(lines) == 1 else Layout.LINES
    # The first line alone isn't a JSON value: the file is pretty-printed, unless a later line is a whole record, which makes the first a bad row.
    if any(line.lstrip()[:1] == first[:1] and len(line) > 2 and _is_json(line) for line in complete[1:4]):
        return Layout.LINES
    if first.startswith(b"["):
        return Layout.LIST
    return Layout.VALUES if complete else Layout.LINES


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(jsontext.loads(line), dict | list)
    except jsontext.UnreadableJSON:
        return False


def _refuse(head: bytes) -> None:
    begun = head.lstrip(b"\r\n")
    for magic, description in _REFUSED:
        if begun.startswith(magic):
            raise UnreadableFile(f"The file is {description}.")
    if head.startswith(_UTF16):
        raise UnreadableFile("The file is UTF-16 or UTF-32. Save it as UTF-8 (`iconv -f UTF-16 -t UTF-8`).")
    if head.startswith((GZIP, ZSTD)):
        raise UnreadableFile("The file is compressed twice. Unpack it once.")
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        raise UnreadableFile("The file is a Python pickle, which can run code when opened. Write it as JSON Lines.")
    if head[257:262] == b"ustar":
        raise UnreadableFile("The file is a tar archive inside another. Unpack it once.")
    if b"\x00" in head[:1000]:
        raise UnreadableFile("The file is binary, not JSON text in UTF-8.")


def _unpacked(raw: io.BufferedReader, counter: _Counting, most_bytes: int) -> io.BufferedReader:
    magic = raw.peek(4)[:4]
    unpacked: Any
    if magic.startswith(GZIP):
        unpacked = gzip.GzipFile(fileobj=raw)
    elif magic == ZSTD:
        unpacked = io.BufferedReader(Pieces(_unpacked_zstd(raw)), BLOCK)
    else:
        return raw
    return _bounded(unpacked, counter, most_bytes)


def _unpacked_zstd(raw: io.BufferedReader) -> Iterator[bytes]:
    """Frame by frame: unlike the library's own stream, this tells a file that was cut off from one that ends."""
    frame = None
    try:
        while packed := raw.read(ZSTD_BYTES):
            while packed:
                frame = frame or zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
                if unpacked := frame.decompress(packed):
                    yield unpacked
                packed = frame.unused_data
                if frame.eof:
                    frame = None
    except zstandard.ZstdError as error:
        raise Unusable(f"damaged ({error}). Upload it again") from None
    if frame:
        raise Unusable("cut off. Upload it again")


def _bounded(unpacked: Any, counter: _Counting, most_bytes: int) -> io.BufferedReader:
    return io.BufferedReader(_Bounded(unpacked, counter, most_bytes), BLOCK)


class _Turned(NamedTuple):
    stream: io.BufferedReader
    layout: Layout


def _turned(file: IO[bytes], counter: _Counting) -> _Turned | None:
    """A file that is an archive or a table, converted to JSON; None for text."""
    begun = file.tell()
    magic = file.read(4)
    size = file.seek(0, io.SEEK_END)
    file.seek(begun)
    try:
        if magic == ZIP:
            return _Turned(io.BufferedReader(EvalArchive(file, counter.reached), BLOCK), Layout.VALUES)
        if magic == PARQUET:
            return _Turned(io.BufferedReader(Table(file, size, counter.reached), BLOCK), Layout.LINES)
    except Unusable as error:
        raise UnreadableFile(f"The file is {error}.") from None
    return None


class _Counting(io.RawIOBase):
    """Counts the bytes read through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.count = 0

    def readable(self) -> bool:
        return True

    def reached(self, count: int) -> None:
        """Set the count, for readers that access the file directly."""
        self.count = count

    def readinto(self, buffer: Any) -> int:
        filled = _fill(buffer, self._file.read)
        self.count += filled
        return filled


class _Bounded(io.RawIOBase):
    """Stops unpacking at a size or ratio that no honest file has: a small file must not fill the machine."""

    def __init__(self, unpacked: Any, packed: _Counting, most_bytes: int) -> None:
        # read1, because read loses what it has unpacked when it meets the end of a truncated file.
        self._read = unpacked.read1
        self._packed = packed
        self._most = most_bytes
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            filled = _fill(buffer, self._read)
        except Unusable as error:
            raise UnreadableFile(f"The file is {error}.") from None
        except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
            raise UnreadableFile(
                f"The compressed data is cut off or damaged ({error}). Upload the file again."
            ) from None
        self._count += filled
        if self._count > self._most:
            raise UnreadableFile(f"Unpacks to more than {self._most >> 30:,} GiB. Split it.")
        if self._count > RATIO_FROM and self._count > RATIO * max(self._packed.count, 1):
            raise UnreadableFile(f"Unpacks to more than {RATIO} times its size, as only a decompression bomb does.")
        return filled


def _fill(buffer: Any, read: Callable[[int], bytes]) -> int:
    """Read until the buffer is full, the source ends, or it fails after returning data (it will fail again at the next read)."""
    filled = 0
    while filled < len(buffer):
        try:
            data = read(len(buffer) - filled)
        except Exception:  # whatever a decompressor raises on damaged data; the data before it is good
            if filled:
                break
            raise
        if not data:
            break
        buffer[filled : filled + len(data)] = data
        filled += len(data)
    return filled
