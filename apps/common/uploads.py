"""Limits what a request may bring, before Django writes its body to disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

FORM_BYTES = 1 << 20
"""What a multipart form adds around its file."""

SMALL_BYTES = 32 << 20
"""What a request to any other address may bring."""

UPLOAD_PATHS = ("/imports/", "/api/v1/imports")


class LimitUploads:
    """ASGI: answers 413 to a body that is, or grows, larger than its address takes.

    Django's handler spools every body to disk before any view or middleware of ours runs, signed in or not; this stands in front of it.
    """

    def __init__(self, inner: Callable[..., Awaitable[None]]) -> None:
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = _limit(scope["path"])
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > limit:
            await _refuse(send, limit)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:
                await _refuse(send, limit)
                return {"type": "http.disconnect"}  # Django drops the request without another word
            return message

        await self.inner(scope, counted, send)


def _limit(path: str) -> int:
    # A root path may stand in front; what matters is how the address ends.
    is_upload = any(path.rstrip("/").endswith(upload.rstrip("/")) for upload in UPLOAD_PATHS)
    return settings.IMPORT_MAX_BYTES + FORM_BYTES if is_upload else SMALL_BYTES


async def _refuse(send: Send, limit: int) -> None:
    words = f"The request is larger than the {limit // 1024**2:,} MiB that this address takes.".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(words)).encode())]
    await send({"type": "http.response.start", "status": 413, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": words})
