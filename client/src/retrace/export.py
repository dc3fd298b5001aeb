"""Downloads a split of a frozen version: to a temporary file beside the target, resumed after interruptions, verified, then renamed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

import httpx

from retrace.core.flow import Flow, pause, receive, work
from retrace.core.replies import checked, retry_after
from retrace.core.request import OnProgress, Progress, Request
from retrace.core.retries import BUSY, TOO_MANY, Retries, unreachable
from retrace.errors import RetraceError
from retrace.models.datasets import File, Version


def export_rows(
    version: Version, split: str, format: str, to: Path, *, retries: Retries, progress: OnProgress | None
) -> Flow[Path]:
    """Download the frozen file to `to`. Raises RetraceError if it doesn't exist or the download doesn't match it."""
    file = _file_of(version, split, format)
    request = Request(
        "GET",
        f"{version.path}/rows",
        {"format": format, "split": split},
        # Uncompressed: a compressed stream can't be resumed in the middle.
        headers={"Accept": "*/*", "Accept-Encoding": "identity"},
    )
    return (yield from download_file(request, file, to, retries=retries, progress=progress))


def download_file(
    request: Request, file: File, to: Path, *, retries: Retries, progress: OnProgress | None
) -> Flow[Path]:
    """Download the file with this size and hash to `to`. Raises RetraceError if the server sends anything else."""
    # The name includes the content hash, so that only an interrupted download of the same file is resumed.
    part = to.with_name(f".{to.name}.{file.sha256[:16]}.part")
    yield from work(lambda: to.parent.mkdir(parents=True, exist_ok=True))
    yield from _download(request, part, file, retries, progress)
    digest = yield from work(lambda: _sha256(part))
    if digest != file.sha256:
        yield from work(part.unlink)
        raise RetraceError(
            f"What came for {to} has the SHA-256 {digest}, and the server says {file.sha256}. Export it again; "
            "if that doesn't help, a proxy changes what it passes on, or the server's file is damaged."
        )
    yield from work(lambda: os.replace(part, to))
    return to


def _download(request: Request, part: Path, file: File, retries: Retries, progress: OnProgress | None) -> Flow[None]:
    attempt, best = 0, -1
    while True:
        offset = part.stat().st_size if part.exists() else 0
        if offset == file.bytes and part.exists():
            return
        if offset > file.bytes:
            yield from work(part.unlink)
            offset = 0
        attempt = 0 if offset > best >= 0 else attempt  # made progress: doesn't count as a failure in a row
        best = max(best, offset)
        headers = {
            **request.headers,
            **({"Range": f"bytes={offset}-", "If-Range": f'"{file.sha256}"'} if offset else {}),
        }
        ranged = Request(request.method, request.path, request.query, headers=headers)
        try:
            with _Part(part, file.bytes, progress) as sink:
                reply = yield from receive(ranged, sink)
        except httpx.RequestError as error:
            delay = retries.delay(attempt)
            if delay is None:
                raise unreachable(ranged, error, attempt + 1) from error
        else:
            busy = reply.status in BUSY or reply.status == TOO_MANY
            delay = retries.delay(attempt, retry_after(reply.headers)) if busy else None
            if delay is None:
                checked(ranged, reply)
                return
        attempt += 1
        yield from pause(delay)


class _Part:
    """The temporary file. A full response restarts it, a partial one is appended."""

    def __init__(self, path: Path, size: int, progress: OnProgress | None) -> None:
        self._path, self._size, self._progress = path, size, progress
        self._file: BinaryIO | None = None

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file:
            self._file.close()

    def begin(self, headers: httpx.Headers, *, is_partial: bool) -> None:
        self._file = self._path.open("ab" if is_partial else "wb")

    def write(self, chunk: bytes) -> None:
        assert self._file is not None
        if self._file.tell() + len(chunk) > self._size:  # it could go on until the disk is full
            raise RetraceError(
                f"The download of {self._path.name} exceeds the {self._size:,} bytes of the server's file."
            )
        self._file.write(chunk)
        if self._progress:
            self._progress(Progress(self._file.tell(), self._size, "bytes"))


def _file_of(version: Version, split: str, format: str) -> File:
    if version.problem:
        raise RetraceError(f"Version {version.number} could not be frozen and has no rows: {version.problem}")
    files = version.files.get(format, {})
    if split in files:
        return files[split]
    if not version.is_over:
        raise RetraceError(f"Version {version.number} is still being frozen. Wait until it is: client.wait(version).")
    splits = ", ".join(sorted(files)) or "none"
    raise RetraceError(f"Version {version.number} has no split {split!r} as {format}. It has: {splits}.")


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
