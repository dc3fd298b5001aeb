"""Serves the files of a frozen version: whole or in ranges, compressed on request, without loading them into memory."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from django.core.files.storage import default_storage
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import parse_etags

from apps.datasets.files.file_threads import in_file_thread
from apps.datasets.models import Version

CONTENT_TYPES = {"jsonl": "application/jsonl", "parquet": "application/vnd.apache.parquet"}
CHUNK_BYTES = 128 << 10
"""Each client that reads slowly holds one in memory."""
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Span(NamedTuple):
    """Bytes `start` to `end` of a file, `end` exclusive; empty if the requested range lies outside the file."""

    start: int
    end: int


def export(request: HttpRequest, version: Version, *, format: str, split: str) -> HttpResponseBase:
    """The response to a request for one file of a frozen version.

    The entity tag is the file's SHA-256: a client that has the file gets 304, an interrupted download resumes where it stopped, and a range
    of another file is never mistaken for one of this file.
    """
    entry = version.files[format][split]
    tag = f'"{entry["sha256"]}"'
    zipped_tag = f'"{entry["sha256"]}-gzip"'
    size: int = entry["bytes"]
    response: HttpResponseBase
    span = wanted_span(request, size=size, tag=tag)
    etags = {etag.removeprefix("W/") for etag in parse_etags(request.headers.get("If-None-Match", ""))}
    if {tag, zipped_tag, "*"} & etags:
        response = HttpResponse(status=304)
    elif span is not None and span.start >= span.end:
        problem = {"detail": f"The range begins after the end of the file, which has {size:,} bytes."}
        response = JsonResponse(problem, status=416, headers={"Content-Range": f"bytes */{size}"})
    elif span is not None:
        response = _body(request, pieces(entry["name"], span), status=206)
        response["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{size}"
        response["Content-Length"] = span.end - span.start
    elif format == "jsonl" and accepts_gzip(request):
        tag = zipped_tag
        response = _body(request, _zipped(pieces(entry["name"], Span(0, size))))
        response["Content-Encoding"] = "gzip"
    else:
        response = _body(request, pieces(entry["name"], Span(0, size)))
        response["Content-Length"] = size
    name = f"{version.dataset_id}-v{version.number}-{split}.{format}"
    if response.status_code != 416:
        response["Content-Type"] = CONTENT_TYPES[format]
        response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["ETag"] = tag
    response["Accept-Ranges"] = "bytes"
    response["Vary"] = "Accept-Encoding, Authorization, Cookie"
    response["Cache-Control"] = "private, no-transform"
    response["Repr-Digest"] = f"sha-256=:{base64.b64encode(bytes.fromhex(entry['sha256'])).decode()}:"
    return response


def wanted_span(request: HttpRequest, *, size: int, tag: str) -> Span | None:
    """The single range requested; None for the whole file, which also answers multiple ranges and ranges of another file (RFC 9110, 14.2)."""
    match = RANGE.fullmatch(request.headers.get("Range", "").replace(" ", ""))
    if match is None or match[1] == match[2] == "" or request.headers.get("If-Range", tag) != tag:
        return None
    if not match[1]:
        return Span(max(0, size - int(match[2])), size)
    start = int(match[1])
    if match[2] and int(match[2]) < start:
        return None
    return Span(start, min(int(match[2]) + 1, size) if match[2] else size)


def accepts_gzip(request: HttpRequest) -> bool:
    """Whether the client accepts gzip, by name or by `*`, and didn't refuse it with q=0."""
    offers = {}
    for part in request.headers.get("Accept-Encoding", "").lower().split(","):
        coding, _, weight = part.partition(";")
        offers[coding.strip()] = weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return offers.get("gzip", offers.get("*", False))


def _body(request: HttpRequest, pieces: AsyncIterator[bytes], *, status: int = 200) -> HttpResponseBase:
    """A streamed body, or none for HEAD. HEAD's is streamed, too, since Django would otherwise set Content-Length to 0."""
    return StreamingHttpResponse(_nothing() if request.method == "HEAD" else pieces, status=status)


async def _nothing() -> AsyncIterator[bytes]:
    for piece in list[bytes]():
        yield piece


async def pieces(name: str, span: Span) -> AsyncIterator[bytes]:
    """The bytes of a stored file. Reads in threads, so that a slow disk or bucket doesn't block other requests."""
    file = await in_file_thread(default_storage.open, name, "rb")
    try:
        await in_file_thread(file.seek, span.start)
        remaining = span.end - span.start
        while remaining and (chunk := await in_file_thread(file.read, min(CHUNK_BYTES, remaining))):
            remaining -= len(chunk)
            yield chunk
    finally:
        await in_file_thread(file.close)


async def _zipped(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Compress at gzip's fastest level, which matters more for slow connections than file size does."""
    squeeze = zlib.compressobj(level=1, wbits=31)
    async for piece in pieces:
        if squeezed := await in_file_thread(squeeze.compress, piece):
            yield squeezed
    yield squeeze.flush()
