"""Serves the archive of an export: whole or in ranges, without loading it into memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.text import slugify

from apps.datasets.files.export import Span, pieces, wanted_span
from apps.transfer.models import Export


def archive_of(request: HttpRequest, export: Export) -> HttpResponseBase:
    """The response to a request for an archive. An interrupted download continues where it stopped."""
    tag = f'"{export.sha256}"'
    span = wanted_span(request, size=export.size, tag=tag)
    response: HttpResponseBase
    if span is not None and span.start >= span.end:
        problem = {"detail": f"The range begins after the end of the archive, which has {export.size:,} bytes."}
        return JsonResponse(problem, status=416, headers={"Content-Range": f"bytes */{export.size}"})
    byte_span = span or Span(0, export.size)
    body = _nothing() if request.method == "HEAD" else pieces(export.file, byte_span)
    response = StreamingHttpResponse(body, status=206 if span else 200, content_type="application/zip")
    if span:
        response["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{export.size}"
    name = f"{slugify(export.workspace.name)[:60] or 'workspace'}-{export.created_at:%Y-%m-%d}.zip"
    response["Content-Length"] = byte_span.end - byte_span.start
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["ETag"] = tag
    response["Accept-Ranges"] = "bytes"
    response["Cache-Control"] = "private, no-store, no-transform"
    return response


async def _nothing() -> AsyncIterator[bytes]:
    for piece in list[bytes]():
        yield piece
