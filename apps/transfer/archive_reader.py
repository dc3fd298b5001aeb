"""Reads an untrusted archive: every size, name, and hash is checked before any of its rows is used.

No member's name is used as a path, and at most one batch of rows, of bounded size, is in memory at a time.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, NamedTuple
from uuid import UUID
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from django.conf import settings

from apps.ingest.files.inspect_archive import refuse_large_directory
from apps.ingest.files.source import RATIO, RATIO_FROM
from apps.transfer import people
from apps.transfer.archive_writer import BLOCK, FORMAT, MANIFEST, ORIGINALS, TRAJECTORIES, WEIGHT_FILES
from apps.transfer.batches import AT_ONCE
from apps.transfer.refusals import BadArchive
from apps.transfer.tables import LISTED, TABLES
from contract import jsontext

MAX_MEMBERS: Final = 100_000
MAX_MANIFEST_BYTES: Final = 32 << 20
MAX_ROW_BYTES: Final = 192 << 20
"""Maximum length of a table's line: a call's messages and its reply may each have tens of megabytes. Lines of trajectories may be as long as in an import of a file."""
MAX_VALUES: Final = 4_000_000
"""Maximum number of values in one line, since parsed JSON takes many times the memory of its text."""
MAX_TRAJECTORY_VALUES: Final = 16_000_000
"""The same for a trajectory: one of a session has up to 8 million token ids."""
BATCH_BYTES: Final = 4 << 20
"""Maximum size of the lines that are read together. A longer line is a batch of its own."""
ENCRYPTED: Final = 1

FIXED: Final = frozenset({people.MEMBER, TRAJECTORIES, ORIGINALS, *(table.name for table in (*TABLES, *LISTED))})
ID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
A_VERSION_FILE: Final = re.compile(
    rf"versions/(?P<version>{ID})/(?P<split>train|validation|test)\.(?P<format>jsonl|parquet)"
)
A_WEIGHT_FILE: Final = re.compile(
    rf"weights/(?P<run>{ID})/(?:(?P<folder>model|adapter)/(?P<file>[A-Za-z0-9_][A-Za-z0-9._-]{{0,199}})|canary\.json)"
)
MAX_CANARY_BYTES: Final = 4 << 20
"""A canary is read whole; it has a few texts' tokens."""
KNOWN: Final = (
    f"{people.MEMBER}, {TRAJECTORIES}, {ORIGINALS}, tables/….jsonl of a table that this version of Retrace has, "
    "versions/<id>/<split>.jsonl or .parquet, and weights/<id>/model or adapter/<file> or canary.json"
)


class MemberInfo(NamedTuple):
    """A member's entry in the manifest."""

    rows: int | None
    bytes: int
    sha256: str


class WeightFile(NamedTuple):
    """A file of a model in the archive."""

    name: str
    run: UUID
    path: str
    """Relative to the training run's folder."""


@contextmanager
def refusing() -> Iterator[None]:
    """Convert errors from damaged archives to BadArchive."""
    try:
        yield
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise BadArchive(
            "The file", f"A damaged zip archive ({error}).", "an archive written by an export of a workspace."
        ) from None


class ArchiveReader:
    """An open archive."""

    def __init__(self, file: IO[bytes]) -> None:
        """Check names and sizes, and read the manifest. Raises BadArchive."""
        with refusing():
            refuse_large_directory(file)
            self._zip = ZipFile(file)
            self._infos = self._checked()
            self.members = self._manifest()

    def verify(self, progress: Callable[[int], None]) -> None:
        """Compare every member with the manifest's hash. Raises BadArchive."""
        for name, member in self.members.items():
            digest, rows = hashlib.sha256(), 0
            for block in self.blocks(name):
                digest.update(block)
                rows += block.count(b"\n")
            if digest.hexdigest() != member.sha256:
                raise BadArchive(name, "Its content has another SHA-256 than the manifest says.", member.sha256)
            if member.rows is not None and rows != member.rows:
                raise BadArchive(name, f"It has {rows:,} lines.", f"{member.rows:,}, as the manifest says.")
            progress(0)

    def blocks(self, name: str) -> Iterator[bytes]:
        """The bytes of a member."""
        with refusing(), self._zip.open(self._infos[name]) as entry:
            while block := entry.read(BLOCK):
                yield block

    def lines(self, name: str, *, max_bytes: int = MAX_ROW_BYTES) -> Iterator[bytes]:
        """The lines of a member; none if the archive has no such member. Raises BadArchive."""
        if name not in self._infos:
            return
        with refusing(), self._zip.open(self._infos[name]) as entry:
            number = 0
            while line := entry.readline(max_bytes + 1):
                number += 1
                if len(line) > max_bytes:
                    raise BadArchive(
                        f"{name}, line {number:,}", "The line is too long.", f"at most {max_bytes:,} bytes."
                    )
                yield line

    def rows(self, name: str, *, max_bytes: int = MAX_ROW_BYTES) -> Iterator[tuple[str, dict[str, Any]]]:
        """The objects in a member, each with its location for messages. Raises BadArchive."""
        for number, line in enumerate(self.lines(name, max_bytes=max_bytes), start=1):
            location = f"{name}, line {number:,}"
            yield location, parsed(line, location)

    def batches(self, name: str) -> Iterator[list[tuple[str, dict[str, Any]]]]:
        """The same, in batches. Raises BadArchive."""
        batch: list[tuple[str, dict[str, Any]]] = []
        size = 0
        for number, line in enumerate(self.lines(name), start=1):
            if batch and (len(batch) == AT_ONCE or size + len(line) > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            location = f"{name}, line {number:,}"
            batch.append((location, parsed(line, location)))
            size += len(line)
        if batch:
            yield batch

    def version_files(self) -> Iterator[str]:
        """Names of the members that are files of frozen versions."""
        return (name for name in self.members if A_VERSION_FILE.fullmatch(name))

    def weight_files(self) -> Iterator[WeightFile]:
        """The members that are files of models."""
        for name in self.members:
            if match := A_WEIGHT_FILE.fullmatch(name):
                yield WeightFile(name, UUID(match["run"]), name.split("/", 2)[2])

    def _checked(self) -> dict[str, ZipInfo]:
        infos = self._zip.infolist()
        if len(infos) > MAX_MEMBERS:
            raise BadArchive("The file", f"It has {len(infos):,} members.", f"at most {MAX_MEMBERS:,}.")
        size = sum(info.file_size for info in infos)
        most = settings.IMPORT_MAX_UNPACKED_BYTES
        if size > most:
            raise BadArchive(
                "The file", f"Unpacked, it has {size:,} bytes.", f"at most {most:,} (IMPORT_MAX_BYTES × 25)."
            )
        for info in infos:
            name = info.filename
            if info.file_size > RATIO_FROM and info.file_size > RATIO * info.compress_size:
                raise BadArchive(_quoted(name), f"It is compressed more than {RATIO}-fold.", "what an export writes.")
            if info.flag_bits & ENCRYPTED or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                raise BadArchive(_quoted(name), "It is encrypted, or compressed in another way.", "deflate.")
            if name.endswith("/canary.json") and info.file_size > MAX_CANARY_BYTES:
                raise BadArchive(_quoted(name), "It is too large.", f"at most {MAX_CANARY_BYTES:,} bytes.")
            if not _is_known(name):
                raise BadArchive(_quoted(name), "There is no such member in an archive.", f"{MANIFEST}, {KNOWN}.")
        if len({info.filename for info in infos}) < len(infos):
            raise BadArchive("The file", "Two members have the same name.", "each member once.")
        return {info.filename: info for info in infos}

    def _manifest(self) -> dict[str, MemberInfo]:
        info = self._infos.pop(MANIFEST, None)
        if info is None:
            raise BadArchive("The file", f"It has no {MANIFEST}.", "an archive written by an export of a workspace.")
        if info.file_size > MAX_MANIFEST_BYTES:
            raise BadArchive(MANIFEST, "It is too large.", f"at most {MAX_MANIFEST_BYTES:,} bytes.")
        manifest = parsed(self._zip.read(info), MANIFEST)
        if manifest.get("format") != FORMAT:
            format_name = str(manifest.get("format"))[:60]
            raise BadArchive(MANIFEST, f"The format is “{format_name}”.", f"{FORMAT}.")
        members = manifest.get("members")
        if type(members) is not dict:
            raise BadArchive(MANIFEST, "It has no `members`.", "an object with an entry for each member.")
        infos = {name: _member_info(name, member) for name, member in members.items()}
        if infos.keys() != self._infos.keys():
            odd = sorted(infos.keys() ^ self._infos.keys())[0]
            raise BadArchive(MANIFEST, f"{_quoted(odd)} is only in the manifest, or only in the archive.", "both.")
        for name, member in infos.items():
            if member.bytes != self._infos[name].file_size:
                raise BadArchive(name, f"It has {self._infos[name].file_size:,} bytes.", f"{member.bytes:,}.")
        return infos


def parsed(line: bytes, location: str, *, max_values: int | None = None) -> dict[str, Any]:
    """A line's JSON object; max_values: MAX_VALUES if not given. Raises BadArchive."""
    max_values = MAX_VALUES if max_values is None else max_values
    if jsontext.has_more_values(line, max_values):
        raise BadArchive(location, "It has too many values.", f"at most {max_values:,} values and names.")
    try:
        value = jsontext.loads(line)
        jsontext.dumps(value)  # checks that it isn't nested too deeply to be stored
    except jsontext.UnreadableJSON as error:
        raise BadArchive(location, str(error), "one JSON object per line.") from None
    if type(value) is not dict:
        raise BadArchive(location, f"It is {jsontext.describe(value)}.", "a JSON object.")
    return value


def _member_info(name: str, entry: Any) -> MemberInfo:
    expected = '{"rows": a number or null, "bytes": a number, "sha256": 64 hexadecimal digits}.'
    if type(entry) is not dict or entry.keys() != {"rows", "bytes", "sha256"}:
        raise BadArchive(f"{MANIFEST}, {_quoted(name)}", "Its entry has other fields.", expected)
    rows, size, sha256 = entry["rows"], entry["bytes"], entry["sha256"]
    is_right = type(size) is int and (rows is None or type(rows) is int) and type(sha256) is str
    if not is_right:
        raise BadArchive(f"{MANIFEST}, {_quoted(name)}", "Its entry has values of other types.", expected)
    return MemberInfo(rows, size, sha256)


def _is_known(name: str) -> bool:
    if name == MANIFEST or name in FIXED or A_VERSION_FILE.fullmatch(name):
        return True
    return A_WEIGHT_FILE.fullmatch(name) is not None and name.endswith(WEIGHT_FILES)


def _quoted(name: str) -> str:
    return "“" + name[:100].encode("ascii", "backslashreplace").decode() + "”"
