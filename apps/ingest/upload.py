"""The records of an upload, each with its format: from a single file or all files in an archive. The first records determine the format."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, NamedTuple

from apps.ingest import formats
from apps.ingest.archives import DATA, Folder, open_folder
from apps.ingest.files.raw_records import EXCERPT, RawRow, as_one
from apps.ingest.files.source import USUAL, Limits, Source, UnreadableFile, open_source
from apps.ingest.formats import AmbiguousFormat, Format, UnknownFormat, has
from apps.ingest.normalization.roles import role_of
from apps.ingest.reading import RecognizedRecord
from apps.ingest.records import Json
from contract import jsontext

MAX_NAMED = 20
"""How many files a message names."""

REPORTS_ALONE = "The archive holds only evaluation reports. Pack them with the trajectories that they judge."


class Upload:
    """Iterating it reads the file once, from the start. Raises UnreadableFile or UnknownFormat."""

    def __init__(self, file: IO[bytes], filename: str, limits: Limits = USUAL) -> None:
        self._file = file
        self._limits = limits
        self._filename = filename
        self._reading: Folder | Source | None = None

    @property
    def bytes_read(self) -> int:
        """Bytes of the file on disk read so far."""
        return self._reading.bytes_read if self._reading else 0

    def __iter__(self) -> Iterator[RecognizedRecord]:
        folder = open_folder(self._file, most_bytes=self._limits.unpacked)
        return self._of_folder(folder) if folder else self._of_file()

    def _of_file(self) -> Iterator[RecognizedRecord]:
        self._reading, rows, format = recognize_file(self._file, self._limits)
        for row in rows:
            yield RecognizedRecord(row, format, self._filename)

    def _of_folder(self, folder: Folder) -> Iterator[RecognizedRecord]:
        self._reading = folder
        outcomes = folder.outcomes()
        position = 0
        refused: list[str] = []
        is_known = False
        for path, file in folder.files():
            if outcomes.holds_no_trajectory(path):
                continue
            for record in _of_member(path, file, self._limits):
                is_known = is_known or record.format is not None
                refused += [record.row.problem] if not is_known else []
                yield record._replace(row=record.row._replace(position=position, file=path), outcomes=outcomes)
                position += 1
        if not is_known and outcomes.read and not refused:
            # The reports hold no trajectories, but outcomes of trajectories that may have been imported before.
            judged = (_of_member(path, file, self._limits) for path, file in folder.files() if path in outcomes.read)
            for record in itertools.chain.from_iterable(judged):
                if record.format:
                    is_known = True
                    yield record._replace(row=record.row._replace(position=position))
                    position += 1
        if not is_known:
            alone = REPORTS_ALONE if outcomes.read and not refused else ""
            raise UnknownFormat(alone or _nothing_in(folder, refused))
        if unread := [path for path in folder.passed_over if path not in outcomes.read]:
            yield RecognizedRecord(RawRow(position, 0, b"", _passed_over(unread)), None, self._filename)


def _of_member(path: str, file: IO[bytes] | UnreadableFile, limits: Limits) -> Iterator[RecognizedRecord]:
    """The records of one file; a problem with the whole file is one more record, on line 0."""
    name = PurePosixPath(path).name
    if isinstance(file, UnreadableFile):
        yield RecognizedRecord(RawRow(0, 0, b"", str(file)), None, name)
        return
    try:
        _, rows, format = recognize_file(file, limits)
    except (UnreadableFile, UnknownFormat) as error:
        file.seek(0)
        yield RecognizedRecord(RawRow(0, 0, file.read(EXCERPT), str(error).removesuffix(LISTED).rstrip()), None, name)
        return
    try:
        for row in rows:
            yield RecognizedRecord(row, format, name)
    except UnreadableFile as error:
        yield RecognizedRecord(RawRow(0, 0, b"", str(error)), None, name)


def _nothing_in(folder: Folder, refused: list[str]) -> str:
    if refused:
        return f"No file of the archive could be read; of the first: {refused[0]}"
    contents_text = f"; it holds {_named(folder.passed_over)}" if folder.passed_over else ""
    return f"The archive holds no file that ends in {', '.join(DATA)}{contents_text}."


def _passed_over(paths: list[str]) -> str:
    return f"Passed over, as their names do not end in {', '.join(DATA)}: {_named(paths)}."


def _named(paths: list[str]) -> str:
    more = len(paths) - MAX_NAMED
    return ", ".join(paths[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")


SAMPLES = 20
"""How many records may be unreadable before the first one that shows the format."""

SAMPLE_BYTES = 32 << 20

SEEN_KEYS = 8
KEY_CHARS = 24
NEAREST = 3
LISTED = "What can be imported is listed on the page of imports and in docs/importing.md."


class Recognized(NamedTuple):
    """A file with a known format, positioned at its first record."""

    source: Source
    rows: Iterator[RawRow]
    format: Format


def recognize_file(file: IO[bytes], limits: Limits = USUAL) -> Recognized:
    """Examine the first records of a file. Raises UnreadableFile or UnknownFormat."""
    source = open_source(file, most_bytes=limits.unpacked)
    rows = source.rows(limit=limits.record)
    head, samples = _sample(rows)
    if samples and not _is_known(samples[0]) and _is_known(samples[:1]):
        # Messages or events, not records: together they are one trajectory.
        file.seek(0)
        source = open_source(file, most_bytes=limits.unpacked)
        rows = as_one(source.rows(limit=limits.record), limits.record)
        head, samples = _sample(rows)
    format, rows = recognize(samples), itertools.chain(head, rows)
    if format.gather:
        rows = format.gather(rows, limits.record)
    return Recognized(source, rows, format)


def recognize(rows: list[Json]) -> Format:
    """The format of a file, from its first readable records. Raises UnknownFormat."""
    for row in rows:
        try:
            if format := formats.format_of(row):
                return format
        except AmbiguousFormat as refusal:
            raise UnknownFormat(f"{refusal}: {_seen(row)}. Leave out the keys of one of them.") from None
    row = rows[0] if rows else None
    description = f"the first record {_seen(row)}" if rows else "none of the first records is JSON"
    parts = (f"No known format: {description}.", _advice(row), _nearest(row), LISTED)
    raise UnknownFormat(" ".join(filter(None, parts)))


def _sample(rows: Iterator[RawRow]) -> tuple[list[RawRow], list[Json]]:
    """The first records up to one that some format recognizes, raw and parsed."""
    head: list[RawRow] = []
    samples: list[Json] = []
    size = 0
    for row in itertools.islice(rows, SAMPLES):
        head.append(row)
        size += len(row.body)
        if not row.problem:
            try:
                samples.append(jsontext.loads(row.body))
            except jsontext.UnreadableJSON:
                continue
            if _is_known(samples[-1]):
                return head, samples[-1:]
        if size > SAMPLE_BYTES:
            break
    return head, samples


def _is_known(value: Json) -> bool:
    try:
        return formats.format_of(value) is not None
    except AmbiguousFormat:
        return True  # reported when the format is determined


def _seen(row: Json, *, deeper: bool = True) -> str:
    if isinstance(row, dict):
        if not row:
            return "is an empty object"
        description = (
            f"has the keys {', '.join(map(_quoted, list(row)[:SEEN_KEYS]))}{', …' if len(row) > SEEN_KEYS else ''}"
        )
        inside = _one_of_many(row) if deeper else None
        return (
            description
            if inside is None
            else f"{description}; {_quoted(next(iter(row)))} {_seen(inside, deeper=False)}"
        )
    if isinstance(row, list):
        if not row or not deeper:
            return f"is {'a' if row else 'an empty'} list"
        return f"is a list whose first element {_seen(row[0], deeper=False)}"
    return f"is {jsontext.dumps(row)[:60].decode('utf-8', 'replace')}"


def _one_of_many(row: Json) -> Json:
    """The first of the records that an object may hold by name; None if it holds none."""
    values = list(row.values()) if isinstance(row, dict) else []
    return values[0] if len(values) > 1 and all(isinstance(row, dict) and row for row in values) else None


def _nearest(row: Json) -> str:
    """The formats that share the most keys with a record or its nested records, and the keys that are missing."""
    inside = _one_of_many(row)
    row = row if inside is None else inside
    near: list[tuple[int, int, str]] = []
    for format in formats.known():
        shared = [
            (keys, [key for key in keys if has(row, key)]) for keys in map(str.split, format.keys) if keys != ["*"]
        ]
        keys, present = max(shared, key=lambda candidate: (len(candidate[1]), -len(candidate[0])), default=([], []))
        lacking = [_quoted(key) for key in keys if key not in present][:2]
        lacks = f" (lacks {', '.join(lacking)})" if lacking else ""
        near += [(-len(present), len(keys), f"{format.title}{lacks}")] if present else []
    return f"Nearest: {'; '.join(description for *_, description in sorted(near)[:NEAREST])}." if near else ""


def _advice(row: Json) -> str:
    """What to do with a record that almost fits a format."""
    if not isinstance(row, dict):
        return ""
    if "action" in row:
        return 'Write all steps of a trajectory into one record (`{"task_id": …, "steps": […]}`).'
    if _is_list_of_objects(row.get("steps")) and "action" not in row["steps"][0]:
        return 'Its `steps` have no `action`: a step is {"obs": …, "action": …}.'
    for key, value in row.items():
        speaker = value[0].get("role", value[0].get("from")) if _is_list_of_objects(value) else None
        if isinstance(speaker, str) and not role_of(value[0]):
            return f"{_quoted(key)} begins with a message of “{speaker[:40]}”, whom no format knows."
    if "message" in row or "role" in row:
        return 'Write all messages of a trajectory into one record (`{"messages": […]}`).'
    return ""


def _quoted(key: str) -> str:
    return f"`{key[:KEY_CHARS]}{'…' if len(key) > KEY_CHARS else ''}`"


def _is_list_of_objects(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)
