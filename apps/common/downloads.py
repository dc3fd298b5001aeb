"""Downloads of any length, in memory of one block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

from apps.common.text_encoding import utf8

BLOCK = 1 << 16


def download(parts: Iterable[str | bytes], *, filename: str, content_type: str) -> StreamingHttpResponse:
    """Send `parts` as a file while they are made.

    Under ASGI Django would first collect a plain iterator into a list. Here each block is made in the request's own thread, where its
    database connection lives, when the client has taken the one before.
    """
    response = StreamingHttpResponse(_asynchronously(_blocks(parts)), content_type=content_type)
    response.headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    return response


def _blocks(parts: Iterable[str | bytes]) -> Iterator[bytes]:
    """Parts joined to blocks worth a trip between threads."""
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(utf8(part) if isinstance(part, str) else part)
        size += len(held[-1])
        if size >= BLOCK:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


async def _asynchronously(blocks: Iterator[bytes]) -> AsyncIterator[bytes]:
    advance = sync_to_async(lambda: next(blocks, None))
    while (block := await advance()) is not None:
        yield block
