"""A file read by a separate process: the result is the same, errors are passed on, and nobody waits in vain."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from django.utils.timezone import now

from apps.common.second_process import SecondProcess, Stopped
from apps.ingest.formats import UnknownFormat
from apps.jobs.models import JobState
from apps.trajectories.imports import import_job
from apps.trajectories.imports.import_job import run_import
from apps.trajectories.imports.preparation import Chunk, chunks
from apps.trajectories.imports.reader_process import chunks_elsewhere
from apps.trajectories.models import ImportBatch, Original, RejectedRow, Step, Trajectory
from tests import factories
from tests.trajectories.uploads import counts, ignore, imported, lines, rich, upload

ROWS = 1500
"""Rows of twelve kilobytes each: a little over four chunks, two of which fit neither into the pipe nor into the read-ahead thread."""


def long_rows() -> list[dict[str, object]]:
    return [rich(number, suffix=" word" * 1200) for number in range(ROWS)]


@pytest.fixture
def always_elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[SecondProcess]:
    """Makes every file large enough for a separate process; returns the processes."""
    started: list[SecondProcess] = []
    start = SecondProcess.__init__

    def noted(process: SecondProcess, *args: Any, **more: Any) -> None:
        start(process, *args, **more)
        started.append(process)

    monkeypatch.setattr(SecondProcess, "__init__", noted)
    monkeypatch.setattr(import_job, "WORTH_A_PROCESS", 1)
    return started


def content_of(chunks: Iterator[Chunk]) -> list[object]:
    """Everything in the chunks except ids, which are always new."""
    return [
        (
            chunk.format,
            chunk.start,
            chunk.end,
            chunk.bytes_read,
            [(item.task, item.policy, item.columns, len(item.steps), row) for item, row in chunk.prepared],
            [asdict(row) for row in chunk.rejected],
        )
        for chunk in chunks
    ]


@pytest.mark.parametrize("start", [0, 750])
def test_it_reads_as_this_process_does(tmp_path: Path, start: int) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(*long_rows()) + b"rubbish\n" + lines(rich(ROWS)))
    with path.open("rb") as here, path.open("rb") as there:
        expected = content_of(chunks(here, path.name, start))
        assert content_of(chunks_elsewhere(there, path.name, start)) == expected
    assert len(expected) > (4 if start == 0 else 2)


def test_a_file_of_no_known_format_is_refused_in_the_same_words(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(lines({"spans": []}))
    with path.open("rb") as file, pytest.raises(UnknownFormat, match="the first record has the keys `spans`"):
        next(chunks_elsewhere(file, path.name, 0))


def test_a_reader_that_is_no_longer_wanted_ends(tmp_path: Path, always_elsewhere: list[SecondProcess]) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(*long_rows()))
    with path.open("rb") as file:
        reading = chunks_elsewhere(file, path.name, 0)
        next(reading)
        reading.close()
    assert always_elsewhere[0]._child.returncode is not None


@pytest.mark.django_db
def test_what_comes_in_is_the_same(always_elsewhere: list[SecondProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    body = lines(*long_rows()[:500], rich(1), rich(1)) + b"rubbish\n"
    elsewhere = imported(body)
    assert len(always_elsewhere) == 1
    monkeypatch.setattr(import_job, "WORTH_A_PROCESS", 1 << 40)
    here = imported(body)
    assert len(always_elsewhere) == 1
    assert (elsewhere.state, *counts(elsewhere)) == (here.state, *counts(here)) == (JobState.DONE, 501, 1002, 1, 1)

    def stored(batch: ImportBatch) -> list[object]:
        runs = Trajectory.objects.filter(import_batch=batch).order_by("content_hash")
        steps = Step.objects.filter(trajectory__import_batch=batch).order_by("trajectory__content_hash", "index")
        originals = Original.objects.filter(trajectory__import_batch=batch).order_by("trajectory__content_hash")
        return [
            list(runs.values_list("content_hash", "course", "info", "step_count")),
            list(steps.values_list("index", "headline", "action", "message")),
            [bytes(original.body) for original in originals],
            list(batch.rejected_rows.values_list("position", "line", "reason", "excerpt")),
        ]

    assert stored(elsewhere) == stored(here)


@pytest.mark.django_db
def test_what_a_damaged_file_still_gives_comes_in_and_the_damage_is_told(always_elsewhere: list[SecondProcess]) -> None:
    body = gzip.compress(lines(*(rich(n, info={"x": str(hash(n))}) for n in range(3000))))
    cut = imported(body[: len(body) // 2])
    assert cut.state == JobState.FAILED
    assert "cut off or damaged" in cut.error
    assert 0 < cut.trajectory_count < 3000
    assert len(always_elsewhere) == 1


@pytest.mark.django_db
def test_when_the_reader_is_killed_the_import_goes_on_from_its_last_chunk(
    always_elsewhere: list[SecondProcess],
) -> None:
    batch = upload(lines(*long_rows()), factories.workspace())

    def kill(mine: ImportBatch) -> None:
        if mine.position:
            always_elsewhere[0]._child.kill()

    with pytest.raises(Stopped, match="status -9"):
        run_import(batch.pk, watch=kill)
    batch.refresh_from_db()
    assert batch.state == JobState.RUNNING
    assert 0 < batch.position < ROWS
    ImportBatch.objects.update(leased_until=now() - timedelta(seconds=1))
    run_import(batch.pk, watch=ignore)
    batch.refresh_from_db()
    assert (batch.state, *counts(batch)) == (JobState.DONE, ROWS, 2 * ROWS, 0, 0)
    assert not RejectedRow.objects.exists()


@pytest.mark.django_db
def test_a_file_that_lies_elsewhere_is_read_here(
    always_elsewhere: list[SecondProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_job, "_is_a_file", lambda file: False)
    assert counts(imported(lines(rich(1)))) == (1, 2, 0, 0)
    assert not always_elsewhere


def test_only_files_of_the_system_can_be_read_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    with path.open("rb") as file:
        assert import_job._is_a_file(file)
    assert not import_job._is_a_file(BytesIO())


def bomb(values: int, length: int) -> bytes:
    """A Parquet row of less than a kilobyte: a list whose values are all the same dictionary entry."""
    entry = pa.DictionaryArray.from_arrays(pa.array([0] * values, pa.int32()), pa.array(["x" * length]))
    file = BytesIO()
    pq.write_table(pa.table({"messages": pa.ListArray.from_arrays([0, values], entry)}), file, compression="zstd")
    return file.getvalue()


def zipped(body: bytes) -> bytes:
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        archive.writestr("runs.parquet", body)
    return file.getvalue()


@pytest.mark.django_db
@pytest.mark.parametrize("pack", [bytes, zipped], ids=["alone", "in an archive"])
@pytest.mark.parametrize("is_a_file", [True, False], ids=["on a disk", "in a bucket"])
def test_a_small_file_that_unpacks_to_more_memory_than_there_is_takes_no_worker_along(
    monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes], is_a_file: bool
) -> None:
    monkeypatch.setenv("IMPORT_MAX_RECORD_BYTES", str(1 << 20))
    if not is_a_file:
        monkeypatch.setattr(import_job, "_is_a_file", lambda file: False)
    body = bomb(50_000, 60_000)
    assert len(body) < 2000  # for 3 GB
    batch = imported(pack(body), name="runs")
    assert batch.state == JobState.FAILED
    assert "doesn't fit in memory" in batch.error


@pytest.mark.django_db
@pytest.mark.parametrize("pack", [gzip.compress, lambda body: zstandard.compress(body)], ids=["gzip", "zstd"])
def test_packed_files_are_read_elsewhere_however_small(
    always_elsewhere: list[SecondProcess], monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(import_job, "WORTH_A_PROCESS", 1 << 40)
    assert counts(imported(pack(lines(rich(1))))) == (1, 2, 0, 0)
    assert len(always_elsewhere) == 1
