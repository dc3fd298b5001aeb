"""The records of an upload, each with its format: of the file itself, or of all the files in an archive."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO

from apps.ingest.archives import DATA, Folder, open_folder
from apps.ingest.files.raw_records import EXCERPT, RawRow
from apps.ingest.files.source import Source, UnreadableFile
from apps.ingest.formats import UnknownFormat
from apps.ingest.limits import USUAL, Limits
from apps.ingest.reading import Found
from apps.ingest.recognition import LISTED, recognize_file

MOST_NAMED = 20
"""Files that are named where there is something to say of many."""

REPORTS_ALONE = "The archive holds reports of evaluations alone. Pack them with the trajectories that they judge."


class Upload:
    """Iterating it reads the file once, from the start. Raises UnreadableFile or UnknownFormat."""

    def __init__(self, file: IO[bytes], filename: str, limits: Limits = USUAL) -> None:
        self._file = file
        self._limits = limits
        self._filename = filename
        self._reading: Folder | Source | None = None

    @property
    def bytes_read(self) -> int:
        """Bytes of the file as it lies on disk that have been read so far."""
        return self._reading.bytes_read if self._reading else 0

    def __iter__(self) -> Iterator[Found]:
        folder = open_folder(self._file, most_bytes=self._limits.unpacked)
        return self._of_folder(folder) if folder else self._of_file()

    def _of_file(self) -> Iterator[Found]:
        self._reading, rows, format = recognize_file(self._file, self._limits)
        for row in rows:
            yield Found(row, format, self._filename)

    def _of_folder(self, folder: Folder) -> Iterator[Found]:
        self._reading = folder
        outcomes = folder.outcomes()
        position = 0
        refused: list[str] = []
        is_known = False
        for path, file in folder.files():
            if outcomes.holds_no_run(path):
                continue
            for found in _of_member(path, file, self._limits):
                is_known = is_known or found.format is not None
                refused += [found.row.problem] if not is_known else []
                yield found._replace(row=found.row._replace(position=position, file=path), outcomes=outcomes)
                position += 1
        if not is_known and outcomes.read and not refused:
            # They hold no runs, but outcomes of runs that may be here.
            judged = (_of_member(path, file, self._limits) for path, file in folder.files() if path in outcomes.read)
            for found in itertools.chain.from_iterable(judged):
                if found.format:
                    is_known = True
                    yield found._replace(row=found.row._replace(position=position))
                    position += 1
        if not is_known:
            alone = REPORTS_ALONE if outcomes.read and not refused else ""
            raise UnknownFormat(alone or _nothing_in(folder, refused))
        if unread := [path for path in folder.passed_over if path not in outcomes.read]:
            yield Found(RawRow(position, 0, b"", _passed_over(unread)), None, self._filename)


def _of_member(path: str, file: IO[bytes] | UnreadableFile, limits: Limits) -> Iterator[Found]:
    """The records of one file; what is wrong with it as a whole is one more, with a problem and on no line."""
    name = PurePosixPath(path).name
    if isinstance(file, UnreadableFile):
        yield Found(RawRow(0, 0, b"", str(file)), None, name)
        return
    try:
        _, rows, format = recognize_file(file, limits)
    except (UnreadableFile, UnknownFormat) as error:
        file.seek(0)
        yield Found(RawRow(0, 0, file.read(EXCERPT), str(error).removesuffix(LISTED).rstrip()), None, name)
        return
    try:
        for row in rows:
            yield Found(row, format, name)
    except UnreadableFile as error:
        yield Found(RawRow(0, 0, b"", str(error)), None, name)


def _nothing_in(folder: Folder, refused: list[str]) -> str:
    if refused:
        return f"No file of the archive could be read; of the first: {refused[0]}"
    held = f"; it holds {_named(folder.passed_over)}" if folder.passed_over else ""
    return f"The archive holds no file that ends in {', '.join(DATA)}{held}."


def _passed_over(paths: list[str]) -> str:
    return f"Passed over, as their names do not end in {', '.join(DATA)}: {_named(paths)}."


def _named(paths: list[str]) -> str:
    more = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
