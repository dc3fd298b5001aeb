"""Files in a bucket, over the real S3 client and a real socket."""

import io
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core.files.storage import storages

from apps.common.bucket import BLOCK_BYTES

LARGE = bytes(range(256)) * (40 * BLOCK_BYTES // 256)


class Requests:
    """What was requested of the bucket."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"/bucket/large.bin": LARGE}
        self.returned = self.count = 0
        self.ignores_ranges = False


@pytest.fixture
def requests() -> Requests:
    return Requests()


@pytest.fixture
def bucket(requests: Requests, settings: Any) -> Iterator[Any]:
    """The configured storage, with a bucket on a socket of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            file = requests.files.get(self.path.partition("?")[0])
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if file is None:
                status, body = 404, b""
            elif wanted and not requests.ignores_ranges:
                status, body = 206, file[int(wanted[1]) : int(wanted[2]) + 1]
            else:
                status, body = 200, file
            self.send_response(status)
            self.send_header("ETag", '"0"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                requests.returned += len(body)
                requests.count += 1
                self.wfile.write(body)

        do_GET = do_HEAD = answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    about = {"access_key": "a", "secret_key": "b", "region_name": "r", "addressing_style": "path"}
    options = {"bucket_name": "bucket", "endpoint_url": url, **about}
    backend = {"BACKEND": "apps.common.bucket.Bucket", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    yield storages["default"]
    server.shutdown()
    server.server_close()


def test_only_what_is_read_is_requested(bucket, requests):
    with bucket.open("large.bin", "rb") as file:
        assert (file.size, requests.returned) == (len(LARGE), 0)
        file.seek(30 * BLOCK_BYTES + 7)
        assert file.read(10) == LARGE[30 * BLOCK_BYTES + 7 :][:10]
    assert requests.returned <= BLOCK_BYTES


def test_a_file_is_the_same_read_in_any_way(bucket, requests):
    with bucket.open("large.bin", "rb") as file:
        assert b"".join(file.chunks(300_000)) == LARGE
        file.seek(-5, io.SEEK_END)
        assert (file.read(), file.read(1)) == (LARGE[-5:], b"")
        file.seek(3)
        before = requests.count
        assert file.read() == LARGE[3:]
        assert requests.count - before == 1
    assert file.closed
    with file.open("rb") as again:
        assert again.read(4) == LARGE[:4]


def test_an_archive_is_read_from_its_directory(bucket, requests):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("large", LARGE)
        archive.writestr("small", b"hello")
    requests.files["/bucket/one.zip"] = packed.getvalue()
    with bucket.open("one.zip", "rb") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("small") == b"hello"
    assert requests.returned < 4 * BLOCK_BYTES


def test_a_missing_file_is_none(bucket):
    with pytest.raises(FileNotFoundError):
        bucket.open("none.bin", "rb")


def test_another_range_than_the_requested_one_is_refused(bucket, requests):
    requests.ignores_ranges = True
    with bucket.open("large.bin", "rb") as file, pytest.raises(OSError, match="another range"):
        file.read(10)


def test_files_are_opened_to_be_read_only(bucket):
    with pytest.raises(ValueError, match="to read bytes"):
        bucket.open("new.bin", "wb")
