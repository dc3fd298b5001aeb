"""Zip and tar archives: the files inside are read one by one, as if each had been uploaded by itself.

Names inside are displayed and passed to format readers as file names; they are never used as paths.
"""

from __future__ import annotations

import gzip
import itertools
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple

import zstandard

from apps.ingest.files.conversion import Unusable
from apps.ingest.files.inspect_archive import HEADERS, ZIP, open_zip, opened
from apps.ingest.files.source import GZIP, RATIO, RATIO_FROM, ZSTD, UnreadableFile
from apps.ingest.normalization.evaluation_reports import HEAD, MAX_BYTES, SCORE, Outcomes, begins_like_report

DATA = (".json", ".jsonl", ".ndjson", ".traj", ".eval", ".parquet", ".csv", ".tsv")
PACKED = (".gz", ".zst")
IN_MEMORY = 16 << 20
"""Bytes of a file unpacked into memory; larger files are spooled to disk while they are read."""

BLOCK = 1 << 20
TAR_BLOCK = 512
MAX_FILES = 200_000
MAX_ENTRIES = 2 * MAX_FILES
"""Limit for a tar archive, folders and links included."""
MAX_HEADER_BYTES = 1 << 16
MAX_PATHS = 128 << 20
"""Total characters of all paths in a tar archive. They are kept in memory, and a compressed archive can hold very long ones."""
MAX_REPORT_BYTES = 2 << 30
"""Total bytes unpacked from an archive's evaluation reports."""
LONG_HEADERS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
BROKEN = (
    *(zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError, EOFError),
    RecursionError,  # endlessly nested headers
)


class _Header(tarfile.TarInfo):
    """A tar header with a size limit: names and comments can be of any size, and tarfile reads them whole into memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.size < 0 or (self.type in LONG_HEADERS and self.size > MAX_HEADER_BYTES):
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]  # no public way in, the same in every version


class Member(NamedTuple):
    """A file in an archive."""

    path: str
    """As spelled in the archive, including folders."""
    open: Callable[[], IO[bytes]]
    passing: int = 0
    """Bytes unpacked even if the member is skipped: a tar is read sequentially."""


class Folder:
    """An archive's data files, unpacked one at a time."""

    def __init__(self, members: Callable[[], Iterator[Member]], packed: IO[bytes], *, most_bytes: int) -> None:
        self._members = members
        self._packed = packed
        self._most = most_bytes
        self._unpacked = 0
        self.passed_over: list[str] = []
        """Files skipped because their names aren't those of data files."""

    @property
    def bytes_read(self) -> int:
        """Bytes of the archive read so far."""
        return self._packed.tell()

    def outcomes(self) -> Outcomes:
        """The outcomes in the archive's reports, as far as they can be read; errors in the archive are reported when its files are read.

        Raises UnreadableFile if they hold more than can be kept.
        """
        outcomes = Outcomes()
        paths: list[str] = []
        passed = reported = 0
        try:
            for member in itertools.islice(self._members(), MAX_FILES):
                passed += member.passing
                if passed > self._most:
                    break
                if _is_hidden(member.path):
                    continue
                if _is_data(member.path):
                    paths.append(member.path)
                    if member.path.endswith(".json"):
                        with suppress(Unusable):
                            reported += _add_report(outcomes, member)
                        if reported > MAX_REPORT_BYTES or outcomes.is_full:
                            break
                elif PurePosixPath(member.path).name == SCORE:
                    with member.open() as packed:
                        outcomes.add_score(member.path, packed.read(HEAD))
        except (Unusable, UnreadableFile, *BROKEN):
            pass
        if reported > MAX_REPORT_BYTES or outcomes.is_full:
            raise UnreadableFile("The archive's evaluation reports are too large. Split it.")
        outcomes.see([path for path in paths if path not in outcomes.read])
        return outcomes

    def files(self) -> Iterator[tuple[str, IO[bytes] | UnreadableFile]]:
        """Each data file by its path: unpacked, or why it can't be. Raises UnreadableFile if the archive itself is damaged."""
        try:
            for count, member in enumerate(self._members()):
                if count == MAX_FILES:
                    raise UnreadableFile(f"The archive holds more than {MAX_FILES:,} files. Split it.")
                if _is_data(member.path) and not _is_hidden(member.path):
                    yield from self._unpack(member)
                    continue
                self._count(member.passing)
                if not _is_hidden(member.path):
                    self.passed_over.append(member.path)
        except BROKEN as error:
            raise UnreadableFile(f"The archive is cut off or damaged ({error}). Upload it again.") from None

    def _unpack(self, member: Member) -> Iterator[tuple[str, IO[bytes] | UnreadableFile]]:
        with SpooledTemporaryFile(max_size=IN_MEMORY) as file:
            try:
                with member.open() as packed:
                    while block := packed.read(BLOCK):
                        self._count(len(block))
                        file.write(block)
            except (Unusable, *BROKEN) as error:
                problem = error if isinstance(error, Unusable) else f"damaged ({error})"
                yield member.path, UnreadableFile(f"The file is {problem}.")
                return
            file.seek(0)
            yield member.path, file

    def _count(self, more: int) -> None:
        self._unpacked += more
        if self._unpacked > self._most:
            raise UnreadableFile(f"Unpacks to more than {self._most >> 30:,} GiB. Split it.")
        if self._unpacked > RATIO_FROM and self._unpacked > RATIO * max(self.bytes_read, 1):
            raise UnreadableFile(f"Unpacks to more than {RATIO} times its size, as only a decompression bomb does.")


def _add_report(outcomes: Outcomes, member: Member) -> int:
    """Adds the member to `outcomes` if it's a report. Returns the number of bytes read."""
    with member.open() as packed:
        head, rest = packed.read(HEAD), b""
        if begins_like_report(member.path, head):
            rest = packed.read(MAX_BYTES)
            if len(rest) < MAX_BYTES:
                outcomes.add(member.path, head + rest)
    return len(head) + len(rest)


def open_folder(file: IO[bytes], *, most_bytes: int) -> Folder | None:
    """The files of an archive; None if the file isn't one. Leaves the position of `file` unchanged."""
    begun = file.tell()
    magic = file.read(4)
    file.seek(begun)
    members = _of_zip(file) if magic == ZIP else _of_tar(file, begun, magic)
    file.seek(begun)
    return Folder(members, file, most_bytes=most_bytes) if members else None


def _of_zip(file: IO[bytes]) -> Callable[[], Iterator[Member]] | None:
    try:
        archive = open_zip(file)
    except zipfile.BadZipFile:
        return None  # reported when it's opened as a single file
    if not {*HEADERS}.isdisjoint(archive.namelist()):
        return None  # an Inspect log is one file

    def members() -> Iterator[Member]:
        for member in archive.infolist():
            if not member.is_dir():
                yield Member(member.filename, partial(opened, archive, member))

    return members


def _of_tar(file: IO[bytes], begun: int, magic: bytes) -> Callable[[], Iterator[Member]] | None:
    def unpacked() -> IO[bytes]:
        file.seek(begun)
        packed: Any = file
        if magic.startswith(GZIP):
            packed = gzip.GzipFile(fileobj=file)
        elif magic == ZSTD:
            packed = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
                file, read_across_frames=True, closefd=False
            )
        return packed  # type: ignore[no-any-return]

    try:
        if unpacked().read(TAR_BLOCK)[257:262] != b"ustar":
            return None
    except (*BROKEN, OSError):
        return None

    def members() -> Iterator[Member]:
        with tarfile.open(fileobj=unpacked(), mode="r|", tarinfo=_Header) as archive:
            count = length = 0
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # it keeps every header
                archive.pax_headers.clear()  # type: ignore[attr-defined]  # and what headers say of all files
                count += 1
                if count > MAX_ENTRIES:
                    raise tarfile.ReadError(f"more than {MAX_ENTRIES:,} entries")
                length += len(member.name)
                if length > MAX_PATHS:
                    raise tarfile.ReadError(f"paths of more than {MAX_PATHS:,} characters")
                if member.isfile():
                    yield Member(member.name, partial(_extracted, archive, member), member.size)
                elif member.islnk() or member.issym():
                    yield Member(member.name, _refuse_link)

    return members


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(member)
    assert file, "only files are asked for"
    return file


def _refuse_link() -> IO[bytes]:
    raise Unusable("a link. Pack the files themselves (`tar --dereference --hard-dereference`)")


def _is_data(path: str) -> bool:
    name = path.lower()
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return name.endswith(DATA)


def _is_hidden(path: str) -> bool:
    parts = path.split("/")
    return "__MACOSX" in parts or any(part.startswith(".") and part.strip(".") for part in parts)
