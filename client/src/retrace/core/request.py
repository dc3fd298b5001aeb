"""A request before it is sent, and the reply to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

CHUNK = 1 << 18
IDEMPOTENCY_KEY = "Idempotency-Key"


class Progress(NamedTuple):
    """Progress of an operation. A `total` of 0 means unknown."""

    done: int
    total: int
    unit: str


OnProgress = Callable[[Progress], object]


@dataclass(frozen=True)
class Upload:
    """A file as a request body. It's reopened each time the request is sent."""

    file: Path
    progress: OnProgress | None = None

    @property
    def size(self) -> int:
        return os.path.getsize(self.file)

    def chunks(self) -> Iterator[bytes]:
        size, sent = self.size, 0
        with self.file.open("rb") as source:
            while chunk := source.read(CHUNK):
                yield chunk
                sent += len(chunk)
                if self.progress:
                    self.progress(Progress(sent, size, "bytes"))

    async def async_chunks(self) -> AsyncIterator[bytes]:
        """Like `chunks`, without blocking the event loop during disk reads."""
        chunks = self.chunks()
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            yield chunk


@dataclass(frozen=True)
class Request:
    """`path` is relative to /api/v1. None values in `query` are left out; `body` is sent as JSON."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    upload: Upload | None = None
    is_remembered: bool = False
    """Whether the server recognizes a repetition and returns the original response."""

    @property
    def may_be_repeated(self) -> bool:
        """Whether the request is idempotent."""
        return self.method == "GET" or self.is_remembered

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Reply(NamedTuple):
    """A complete response."""

    status: int
    headers: httpx.Headers
    content: bytes


def address(template: str, *parts: object) -> str:
    """`template` with each `{}` replaced by one escaped part.

    Raises ValueError for a part that would change the path's structure.
    """
    texts = [str(part) for part in parts]
    for text in texts:
        if text in ("", ".", ".."):
            raise ValueError(f"{text!r} isn't an id. {template} needs one that isn't empty.")
    return template.format(*(quote(text, safe="") for text in texts))
