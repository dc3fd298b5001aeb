"""Converts Inspect's `.eval` archives to a stream of JSON: for each sample, a log with the header and that sample alone.

An `.eval` file is a zip archive of `header.json` (in `_journal/start.json` while the evaluation runs) and
`samples/<id>_epoch_<n>.json`. Names inside are never used as paths. Newer versions compress with zstd, which Python's zipfile supports
from 3.14 on, so those members are decompressed here.
"""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

import zstandard

from apps.ingest.files.conversion import Pieces, Unusable
from contract import jsontext

ZIP = b"PK\x03\x04"
ZSTD_METHOD = 93
ENCRYPTED = 1
LOCAL_HEADER = struct.Struct("<26xHH")
"""Local header of a member: skips 26 bytes that the central directory repeats, then the lengths of the name and the extra field."""
HEADERS = ("header.json", "_journal/start.json")
MAX_HEADER_BYTES = 16 << 20
MAX_DIRECTORY_BYTES = 128 << 20
"""Size of a zip archive's central directory, which is read whole."""
BLOCK = 1 << 20


def open_zip(file: IO[bytes]) -> zipfile.ZipFile:
    """A zip archive with its directory. Raises zipfile.BadZipFile."""
    refuse_large_directory(file)
    try:
        return zipfile.ZipFile(file)
    except NotImplementedError as error:
        raise zipfile.BadZipFile(str(error)) from None


def refuse_large_directory(file: IO[bytes]) -> None:
    """Refuse a zip archive whose central directory is too large to read. Raises zipfile.BadZipFile."""
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]  # no public way in, the same in every version
    if end and end[zipfile._ECD_SIZE] > MAX_DIRECTORY_BYTES:  # type: ignore[attr-defined]
        raise zipfile.BadZipFile("its directory is larger than it can be")


class _Part(io.RawIOBase):
    """The next `size` bytes of a file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._file.read(min(len(buffer), self._left))
        self._left -= len(block)
        buffer[: len(block)] = block
        return len(block)


class _Unpacking(io.RawIOBase):
    """A member whose decompression errors are all raised as BadZipFile: bzip2 raises a bare OSError, and lzma an error of its own."""

    def __init__(self, member: IO[bytes]) -> None:
        self._member = member

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._member.read(len(buffer))
        except OSError as error:
            if error.errno is not None:
                raise
            raise zipfile.BadZipFile(str(error)) from None
        except lzma.LZMAError as error:
            raise zipfile.BadZipFile(str(error)) from None
        buffer[: len(block)] = block
        return len(block)


class EvalArchive(Pieces):
    """Reads the archive sample by sample; no sample is held whole in memory."""

    def __init__(self, file: IO[bytes], passed: Callable[[int], None]) -> None:
        """`passed` is called with the number of bytes of the archive read so far. Raises Unusable."""
        self._passed = passed
        self._size = file.seek(0, io.SEEK_END)
        try:
            self._zip = open_zip(file)
            super().__init__(self._logs(self._header()))
        except zipfile.BadZipFile as error:
            raise Unusable(f"a damaged zip archive ({error}). Upload it again") from None

    def _header(self) -> bytes:
        """The header's description of the evaluation, as JSON."""
        names = set(self._zip.namelist())
        name = next((name for name in HEADERS if name in names), None)
        if name is None:
            raise Unusable("a zip archive inside another. Unpack it once")
        body = b"".join(self._unpacked(self._zip.getinfo(name), max_bytes=MAX_HEADER_BYTES))
        try:
            header = jsontext.loads(body)
        except jsontext.UnreadableJSON as error:
            raise Unusable(f"a zip archive whose {name} cannot be read: {error}") from None
        return jsontext.dumps(header.get("eval") if type(header) is dict else None)

    def _logs(self, details: bytes) -> Iterator[bytes]:
        read = 0
        for member in self._zip.infolist():
            read += member.compress_size
            if member.filename.startswith("samples/") and member.filename.endswith(".json"):
                # Before it's unpacked, since the ratio of what it unpacks to is checked. Members may overlap, and each claims its size.
                self._passed(min(read, self._size))
                yield b'{"eval":%b,"samples":[' % details
                yield from self._unpacked(member)
                yield b"]}\n"

    def _unpacked(self, member: zipfile.ZipInfo, *, max_bytes: int | None = None) -> Iterator[bytes]:
        size = 0
        try:
            with opened(self._zip, member) as stream:
                while block := stream.read(BLOCK):
                    size += len(block)
                    if max_bytes and size > max_bytes:
                        raise Unusable(
                            f"a zip archive whose {member.filename[:80]} is larger than {max_bytes >> 20} MiB"
                        )
                    yield block
        except (zipfile.BadZipFile, zlib.error, zstandard.ZstdError, EOFError) as error:
            raise Unusable(f"a damaged zip archive ({error}). Upload it again") from None


def opened(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """Open a member as a stream. Raises Unusable if it's encrypted or its compression method is unknown, and zipfile.BadZipFile."""
    if member.flag_bits & ENCRYPTED:
        raise Unusable("an encrypted zip archive. Unpack it and pack it without a password")
    if member.header_offset < 0:
        raise zipfile.BadZipFile("a member before its beginning")
    if member.compress_type != ZSTD_METHOD:
        try:
            return _Unpacking(archive.open(member))
        except NotImplementedError:
            raise Unusable(
                "a zip archive packed in a way that cannot be read. Pack it again with deflate or zstd"
            ) from None
    file: Any = archive.fp
    file.seek(member.header_offset)
    header = file.read(LOCAL_HEADER.size)
    if len(header) < LOCAL_HEADER.size:
        raise zipfile.BadZipFile("a member behind its end")
    file.seek(sum(LOCAL_HEADER.unpack(header)), io.SEEK_CUR)
    packed: Any = io.BufferedReader(_Part(file, member.compress_size), BLOCK)
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed, read_across_frames=True)
