"""Where an uploaded file is stored, also in an S3 bucket: never at a path from its name."""

import io
import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils.timezone import now
from storages.backends.s3 import S3Storage

from apps.jobs.models import JobState
from apps.trajectories.imports import upload
from apps.trajectories.imports.import_job import run_import
from apps.trajectories.imports.upload import LONGEST_UPLOAD, drop, start_import, store
from apps.trajectories.models import ImportBatch, Upload
from tests import factories
from tests.trajectories.uploads import ignore, lines, rich
from tests.trajectories.uploads import upload as upload_of
from workers.tasks import delete_abandoned_uploads

pytestmark = pytest.mark.django_db

HOSTILE = [
    *("/etc/passwd", "../../up.jsonl", "..\\..\\up.jsonl", "C:\\a\\b.json", "nul\x00.json.gz", f"{'x' * 5000}.jsonl"),
    *("a?versionId=1.json", "a#b.json", "a%2e%2e%2fb.json", "..", ".", "", " ", "a\r\nx-amz-acl: public-read.json"),
    *("\u202egnp.json", "\ud800.json", "é.json", ".json", "a.json/", "//b.json"),
]
KEY = re.compile(r"/bucket/imports/\d{4}/\d\d/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.[A-Za-z0-9]{1,8}){0,2}")


@pytest.fixture
def bucket_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """The requests that the S3 client sends to a bucket, which is empty and accepts every upload."""
    seen: list[tuple[str, str]] = []

    class Bucket(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int) -> None:
            seen.append((self.command, self.path))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("ETag", '"0"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_HEAD(self) -> None:
            self.answer(404)

        def do_PUT(self) -> None:
            self.answer(200)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    about = {"access_key": "a", "secret_key": "b", "region_name": "r", "addressing_style": "path"}
    monkeypatch.setattr(upload, "default_storage", S3Storage(bucket_name="bucket", endpoint_url=url, **about))
    yield seen
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", HOSTILE)
def test_the_key_in_a_bucket_is_ours_whatever_the_file_is_called(bucket_requests, name):
    stored = store(ContentFile(b"{}"), filename=name)
    assert {method for method, _ in bucket_requests} >= {"PUT"}
    assert all(KEY.fullmatch(path.partition("?")[0]) for _, path in bucket_requests), bucket_requests
    assert bucket_requests[-1][1].partition("?")[0] == f"/bucket/{stored.name}"
    assert stored.filename
    assert not {"/", "\x00", "\n"} & set(stored.filename)


def test_two_files_of_one_name_are_two_keys(bucket_requests):
    assert len({store(ContentFile(b"{}"), filename="a.json").name for _ in range(2)}) == 2


def test_what_a_killed_process_was_receiving_is_deleted_later_and_only_that():
    home = factories.workspace()
    taken = start_import(workspace_id=home.pk, stored=store(ContentFile(b"{}"), filename="a.json"), created_by=None)
    kept = store(ContentFile(b"[]"), filename="b.json")
    drop(store(ContentFile(b"{}"), filename="c.json"))
    killed = store(ContentFile(b"{}"), filename="d.json")  # the process ends here
    before_its_file = Upload.objects.create(name="imports/2026/11/none.json")
    Upload.objects.exclude(name=kept.name).update(started_at=now() - LONGEST_UPLOAD - timedelta(minutes=1))

    delete_abandoned_uploads()

    assert not default_storage.exists(killed.name)
    assert not Upload.objects.filter(pk=before_its_file.pk).exists()
    assert default_storage.exists(taken.file.name)
    assert list(Upload.objects.values_list("name", flat=True)) == [kept.name]
    assert default_storage.exists(kept.name)


def test_a_worker_killed_at_the_end_of_an_import_leaves_no_file(monkeypatch):
    def killed(*_: object) -> None:
        raise SystemExit

    clean, dirty = upload_of(lines(rich(1))), upload_of(lines(rich(2)) + b"oops\n")
    with monkeypatch.context() as patch:
        patch.setattr(default_storage, "delete", killed)
        with pytest.raises(SystemExit):
            run_import(clean.pk, watch=ignore)
        run_import(dirty.pk, watch=ignore)
    assert ImportBatch.objects.filter(state=JobState.DONE).count() == 2
    assert default_storage.exists(clean.file.name)
    Upload.objects.update(started_at=now() - LONGEST_UPLOAD - timedelta(minutes=1))

    delete_abandoned_uploads()

    assert not default_storage.exists(clean.file.name)
    assert default_storage.exists(dirty.file.name)
    assert not Upload.objects.exists()


def test_a_file_is_known_before_its_first_byte_is_stored(monkeypatch):
    known = []

    class Stream(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            known.append(Upload.objects.count())
            return super().read(size)

    store(Stream(b"{}"), filename="a.json")
    assert set(known) == {1}


def test_a_repeated_request_leaves_one_file():
    home = factories.workspace()
    for _ in range(2):
        stored = store(ContentFile(b"{}"), filename="a.json")
        start_import(workspace_id=home.pk, stored=stored, created_by=None, idempotency_key="one")
    batch = ImportBatch.objects.get()
    assert default_storage.exists(batch.file.name)
    assert not default_storage.exists(stored.name)
    assert not Upload.objects.exists()
