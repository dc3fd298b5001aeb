"""Failures that an import survives: a full disk, a killed or revived worker, a concurrent second worker."""

import errno
import gzip
import io
import time
from datetime import timedelta

import psycopg.errors
import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError
from django.db import OperationalError
from django.db.models.fields.files import FieldFile
from django.utils.timezone import now

from apps.jobs import lifecycle
from apps.jobs.lifecycle import NotResumable
from apps.jobs.models import JobState, Superseded
from apps.trajectories.imports import import_job, preparation
from apps.trajectories.imports.import_job import IMPORTS, KEPT, NO_ROOM, run_import
from apps.trajectories.models import ImportBatch, Step, Trajectory
from tests.trajectories.uploads import counts, ignore, imported, lines, rich, upload

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("where", ["disk", "database"])
def test_a_full_disk_stops_the_import_which_goes_on_when_there_is_room(monkeypatch, where):
    real = import_job.copy_in
    calls = []

    def full(*args):
        calls.append(args)
        if len(calls) == 2:
            if where == "disk":
                raise OSError(28, "No space left on device")
            raise OperationalError("could not extend file") from psycopg.errors.DiskFull()
        return real(*args)

    monkeypatch.setattr(import_job, "copy_in", full)
    monkeypatch.setattr(preparation, "CHUNK_ROWS", 10)
    batch = imported(lines(*(rich(n) for n in range(30))))
    assert (batch.state, batch.error, *counts(batch)) == (JobState.FAILED, NO_ROOM, 10, 20, 0, 0)
    lifecycle.resume(batch, by=None)
    run_import(batch.pk, watch=ignore)
    batch.refresh_from_db()
    assert (batch.state, *counts(batch)) == (JobState.DONE, 30, 60, 0, 0)


def test_an_import_goes_on_where_it_stopped(monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK_ROWS", 10)

    def die(batch: ImportBatch) -> None:
        if batch.position == 20:
            raise KeyboardInterrupt

    batch = upload(lines(*(rich(n) for n in range(45))) + b"rubbish\n")
    with pytest.raises(KeyboardInterrupt):
        run_import(batch.pk, watch=die)
    batch.refresh_from_db()
    assert (batch.state, batch.position, *counts(batch)) == (JobState.RUNNING, 20, 20, 40, 0, 0)
    assert run_import(batch.pk, watch=ignore) is None  # the lease hasn't expired
    ImportBatch.objects.update(leased_until=now() - timedelta(seconds=1))
    run_import(batch.pk, watch=ignore)
    batch.refresh_from_db()
    assert (batch.state, batch.attempt, *counts(batch)) == (JobState.DONE, 2, 45, 90, 0, 1)
    assert Step.objects.count() == 90


def test_a_worker_that_comes_back_from_the_dead_writes_nothing(monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK_ROWS", 10)
    batch = upload(lines(*(rich(n) for n in range(30))))

    def taken_over(mine: ImportBatch) -> None:
        if mine.position == 10:
            ImportBatch.objects.update(attempt=99)

    run_import(batch.pk, watch=taken_over)
    batch.refresh_from_db()
    assert (batch.position, Trajectory.objects.count(), batch.state) == (10, 10, JobState.RUNNING)


def test_cancelling_stops_the_worker_at_its_next_chunk(monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK_ROWS", 10)
    batch = upload(lines(*(rich(n) for n in range(30))))

    def stop(mine: ImportBatch) -> None:
        if mine.position == 10 and mine.is_active:
            lifecycle.cancel(ImportBatch.objects.get(pk=mine.pk), by=None)

    run_import(batch.pk, watch=stop)
    batch.refresh_from_db()
    assert (batch.state, batch.position, Trajectory.objects.count()) == (JobState.CANCELLED, 10, 10)


def test_a_batch_is_taken_by_one_worker_only():
    batch = upload(lines(rich(1)))
    assert lifecycle.claim(IMPORTS, batch.pk, worker="a:1") is not None
    assert lifecycle.claim(IMPORTS, batch.pk, worker="b:2") is None


def test_a_worker_of_this_host_that_is_gone_is_not_waited_for():
    batch = upload(lines(rich(1)))
    host = lifecycle.this_worker().split(":")[0]
    lifecycle.claim(IMPORTS, batch.pk, worker=f"{host}:4194300")
    assert lifecycle.claim(IMPORTS, batch.pk, worker="b:2") is not None


def test_a_record_that_kills_its_workers_is_given_up_by_name():
    batch = upload(lines(rich(1)))
    for _ in range(ImportBatch.MAX_LOSSES):
        assert lifecycle.claim(IMPORTS, batch.pk, worker="elsewhere:1") is not None
        ImportBatch.objects.update(leased_until=now() - timedelta(seconds=1))
    assert lifecycle.claim(IMPORTS, batch.pk, worker="elsewhere:1") is None
    batch.refresh_from_db()
    assert batch.state == JobState.FAILED
    assert batch.error.startswith("3 workers in a row stopped answering while they had this import")
    assert "Record 1 or one soon after it may need more memory" in batch.error


def test_vanished_and_forgotten_imports_are_told_to_the_workers_again(monkeypatch, django_capture_on_commit_callbacks):
    states = []
    monkeypatch.setattr("workers.app.app.send_task", lambda name, args: states.append(args[0]))
    vanished, forgotten, fresh, done = (upload(lines(rich(n))) for n in range(4))
    lifecycle.claim(IMPORTS, vanished.pk, worker="elsewhere:1")
    ImportBatch.objects.filter(pk__in=[vanished.pk, forgotten.pk]).update(leased_until=now() - timedelta(seconds=1))
    ImportBatch.objects.filter(pk=done.pk).update(state=JobState.DONE, leased_until=now() - timedelta(days=1))
    with django_capture_on_commit_callbacks(execute=True):
        assert lifecycle.recover(IMPORTS) == [vanished]
    assert sorted(states) == sorted([str(vanished.pk), str(forgotten.pk)])
    fresh.refresh_from_db()
    done.refresh_from_db()
    assert (fresh.state, done.state) == (JobState.WAITING, JobState.DONE)


def test_only_a_failed_or_cancelled_import_can_be_retried():
    batch = imported(lines(rich(1)))
    with pytest.raises(NotResumable, match="This import is done"):
        lifecycle.resume(batch, by=None)


def test_a_lost_lease_is_noticed_while_reading():
    batch = upload(lines(rich(1)))
    mine = lifecycle.claim(IMPORTS, batch.pk, worker="a:1")
    assert mine is not None
    lifecycle.renew(mine)
    ImportBatch.objects.update(attempt=7)
    with pytest.raises(Superseded):
        lifecycle.renew(mine)


class OneRead(io.BytesIO):
    """A file in remote storage, which fails once its beginning was read."""

    def __init__(self, body: bytes, error: Exception) -> None:
        super().__init__(body)
        self._error = error
        self._reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self._reads += 1
        if self._reads > 1:
            raise self._error
        return super().read(size)

    read1 = read

    def fileno(self) -> int:
        raise OSError


def with_file(monkeypatch, make):
    monkeypatch.setattr(FieldFile, "open", lambda self, mode: make())


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="https://bucket.example.org"),
        ConnectTimeoutError(endpoint_url="https://bucket.example.org"),
        ClientError({"ResponseMetadata": {"HTTPStatusCode": 503}}, "GetObject"),
    ],
)
def test_an_import_goes_on_when_its_bucket_is_back(monkeypatch, error):
    body = lines(rich(1))
    batch = upload(body)
    with monkeypatch.context() as patch:
        with_file(patch, lambda: OneRead(body, error))
        with pytest.raises(type(error)):
            run_import(batch.pk, watch=ignore)
    batch.refresh_from_db()
    assert (batch.state, batch.error) == (JobState.RUNNING, "")
    ImportBatch.objects.update(leased_until=now() - timedelta(seconds=1))
    run_import(batch.pk, watch=ignore)
    batch.refresh_from_db()
    assert (batch.state, *counts(batch)) == (JobState.DONE, 1, 2, 0, 0)


def test_a_file_store_that_does_not_respond_is_not_taken_for_slow_reading(monkeypatch):
    body = lines(rich(1))
    batch = upload(body)
    with_file(monkeypatch, lambda: OneRead(body, TimeoutError(errno.ETIMEDOUT, "Connection timed out")))
    run_import(batch.pk, watch=ignore)
    batch.refresh_from_db()
    assert batch.state == JobState.FAILED
    assert batch.error == f"The uploaded file couldn't be read: Connection timed out. {KEPT}"


@pytest.mark.django_db(transaction=True)
def test_the_lease_is_kept_while_a_packed_file_comes_from_a_bucket(monkeypatch, settings):
    settings.WORKER_LEASE_SECONDS = 1
    body = gzip.compress(lines(rich(1)))
    batch = upload(body, name="file.jsonl.gz")
    leases = []

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if size != import_job.TAR_HEADER and not leases:
                time.sleep(0.8)
                leases.append(ImportBatch.objects.get().leased_until - now())
            return super().read(size)

        def fileno(self) -> int:
            raise OSError

    with_file(monkeypatch, lambda: Slow(body))
    run_import(batch.pk, watch=ignore)
    batch.refresh_from_db()
    assert batch.state == JobState.DONE
    assert leases[0] > timedelta(seconds=0.5)
