"""Exports that are generated while they're sent: all splits in one archive, and step labels in TRL's stepwise format."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from django.http import HttpRequest, StreamingHttpResponse

from apps.datasets.files.export import Span, pieces
from apps.datasets.files.file_threads import in_file_thread
from apps.datasets.models import Split, Version
from contract import jsontext
from contract.rows.stepwise import stepwise

STEPWISE = "stepwise"
"""Name of the format, for versions of process labels."""
PROCESS_LABELS = "steps"
"""The row type of process labels."""


def archive(request: HttpRequest, version: Version, card: str) -> StreamingHttpResponse:
    """One zip with every split as JSON Lines and the card. Empty splits are included, since the version's hash covers all of them."""
    name = f"{version.dataset_id}-v{version.number}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "private, no-transform"}
    body = _nothing() if request.method == "HEAD" else _zipped(version, card)
    return StreamingHttpResponse(body, content_type="application/zip", headers=headers)


def stepwise_rows(request: HttpRequest, version: Version, split: str) -> StreamingHttpResponse:
    """The rows of a split with the columns `prompt`, `completions`, and `labels`; rows without a label at the first step are left out."""
    entry = version.files["jsonl"][split]
    name = f"{version.dataset_id}-v{version.number}-{split}-{STEPWISE}.jsonl"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "private, no-transform",
    }
    body = _nothing() if request.method == "HEAD" else _stepwise(pieces(entry["name"], Span(0, entry["bytes"])))
    return StreamingHttpResponse(body, content_type="application/jsonl", headers=headers)


async def _nothing() -> AsyncIterator[bytes]:
    for piece in list[bytes]():
        yield piece


async def _stepwise(rows: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    unfinished: list[bytes] = []  # joined only at a line's end, which may be thousands of pieces away
    async for piece in rows:
        unfinished.append(piece)
        if b"\n" in piece:
            *lines, rest = b"".join(unfinished).split(b"\n")
            unfinished = [rest]
            yield await in_file_thread(_written, lines)
    yield await in_file_thread(_written, [b"".join(unfinished)])


def _written(lines: Sequence[bytes]) -> bytes:
    rows = (stepwise(jsontext.loads(line)) for line in lines if line.strip())
    return b"".join(json.dumps(row, ensure_ascii=True).encode() + b"\n" for row in rows if row)


class _Sink(io.RawIOBase):
    """Buffers what is written to it until it's read."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = bytes(data)  # type: ignore[call-overload]  # whatever ZipFile writes is bytes
        self.parts.append(part)
        return len(part)

    def take(self) -> bytes:
        data = b"".join(self.parts)
        self.parts.clear()
        return data


async def _zipped(version: Version, card: str) -> AsyncIterator[bytes]:
    sink = _Sink()
    frozen = version.created_at.astimezone(UTC).timetuple()[:6]
    with ZipFile(sink, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for split in Split:
            exported = version.files["jsonl"][split.value]
            info = ZipInfo(f"{split.value}.jsonl", frozen)
            info.compress_type = ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as entry:
                async for piece in pieces(exported["name"], Span(0, exported["bytes"])):
                    await in_file_thread(entry.write, piece)
                    yield sink.take()
        archive.writestr(ZipInfo("README.md", frozen), card)
    yield sink.take()
