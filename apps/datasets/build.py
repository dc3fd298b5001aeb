"""From judgments and steps to files, figures and sources. Reads the database in streams; memory holds one row at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from django.db import connection

from apps.common.commits import unawaited
from apps.datasets.figures import Figures
from apps.datasets.files.splitfiles import FileFacts, SplitFiles
from apps.datasets.models import Split, Version, VersionJudgement, VersionPreference
from apps.datasets.rows.materials import Files, Materials, Source
from apps.datasets.rows.pairs import PairRows
from apps.datasets.rows.single_runs import RunRows
from apps.datasets.selection import splits
from apps.datasets.selection.survey import survey


class Built(NamedTuple):
    """A version's finished files, still in the attempt's own folder, and its figures."""

    files: dict[Split, dict[str, FileFacts]]
    figures: Figures


class Builder:
    """One pass over everything that a version's recipe lets in."""

    def __init__(self, version: Version, folder: Path, *, progress: Callable[[int, int], None]) -> None:
        self.version = version
        self.folder = folder
        self.progress = progress
        self.materials = Materials(version)

    def build(self) -> Built:
        """Settle the splits, then write every row. What an attempt before this one recorded is replaced."""
        VersionPreference.objects.filter(version=self.version).delete()
        VersionJudgement.objects.filter(version=self.version).delete()
        recipe, figures = self.materials.recipe, self.materials.figures
        found = survey(recipe, self.version.workspace)
        self.progress(0, found.rows)
        self.materials.splits = splits.settle(
            [entry.task for entry in found.tasks.values()],
            workspace=self.version.workspace,
            shares=recipe.shares,
            seed=recipe.seed,
        )
        with ExitStack() as stack:
            writing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writing")
            files = {split: SplitFiles(self.folder, split, self.materials.row_type.layout, writing) for split in Split}
            for writer in files.values():
                stack.callback(writer.close)
            stack.callback(writing.shutdown)  # before the files are closed
            for written in stack.enter_context(closing(self._write(files, found.rows))):
                self._record(written)
                self.progress(sum(figures.rows.values()), found.rows)
            return Built({split: writer.finish() for split, writer in files.items()}, figures)

    def _write(self, files: Files, expected: int) -> Generator[list[Source], None, None]:
        row_type = self.materials.row_type
        if row_type.pairs:
            yield from PairRows(self.materials, row_type.pairs).write(files, expected=expected)
        if row_type.runs:
            yield from RunRows(self.materials, row_type.runs).write(files)

    def _record(self, sources: Sequence[Source]) -> None:
        """Write which judgments went into which rows."""
        version = self.version.pk
        pairs = [(version, s.preference, s.task, s.split, s.row) for s in sources if s.preference]
        runs = [(version, s.inspection, s.rating, s.task, s.split, s.row) for s in sources if not s.preference]
        # The commit that makes the version final waits for the disk; an attempt that is lost begins anew.
        with unawaited():
            _copy("datasets_versionpreference (version_id, preference_id, task_id, split, row)", pairs)
            _copy("datasets_versionjudgement (version_id, inspection_id, rating_id, task_id, split, row)", runs)


def _copy(place: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if not rows:
        return
    with connection.cursor() as cursor:
        raw: Any = cursor.cursor
        with raw.copy(f"COPY {place} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
