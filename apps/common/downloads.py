"""Streaming downloads of any length, with one block in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.db.models import Model, QuerySet
from django.http import StreamingHttpResponse

from apps.common.request_threads import release_connections
from apps.common.text_encoding import utf8

BLOCK = 1 << 16
BLOCKS_AT_ONCE = 3
"""Blocks that a process generates concurrently, so that many downloads leave connections and processor time to pages."""
M = TypeVar("M", bound=Model)


def download(parts: Iterable[str | bytes], *, filename: str, content_type: str) -> StreamingHttpResponse:
    """Stream `parts` as a file while they are generated.

    Under ASGI, Django would first collect a plain iterator into a list. Here each block is generated in the request's thread once the client
    has received the previous one. No database connection is held in between, so read parts with `in_pages`, not with one open cursor.
    """
    response = StreamingHttpResponse(_asynchronously(_blocks(parts)), content_type=content_type)
    response.headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    return response


def in_pages(rows: QuerySet[M], *, by: str, size: int) -> Iterator[M]:
    """The rows ordered by a unique column, `size` in memory at a time, with one query per page."""
    rows = rows.order_by(by)
    page = list(rows[:size])
    while page:
        yield from page
        page = list(rows.filter(**{f"{by}__gt": getattr(page[-1], by)})[:size]) if len(page) == size else []


def _blocks(parts: Iterable[str | bytes]) -> Iterator[bytes]:
    """Join parts to blocks large enough to justify switching threads."""
    buffered: list[bytes] = []
    size = 0
    for part in parts:
        buffered.append(utf8(part) if isinstance(part, str) else part)
        size += len(buffered[-1])
        if size >= BLOCK:
            yield b"".join(buffered)
            buffered, size = [], 0
    if buffered:
        yield b"".join(buffered)


async def _asynchronously(blocks: Iterator[bytes]) -> AsyncIterator[bytes]:
    def next_block() -> bytes | None:
        try:
            return next(blocks, None)
        finally:
            release_connections()

    advance = sync_to_async(next_block)
    turns = _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(BLOCKS_AT_ONCE))
    while True:
        async with turns:
            block = await advance()
        if block is None:
            return
        yield block


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
