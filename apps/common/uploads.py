"""Limits what a request may bring, before Django writes its body to disk."""

from __future__ import annotations

import json
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
    """ASGI: refuses a body that is, or grows, larger than its address takes, or than it takes of a stranger.

    Django's handler spools every body to disk before any view or middleware of ours runs, signed in or not; this stands in front of it.
    `may_upload` says of a request whether somebody sends it who may bring more than SMALL_BYTES; it is asked about those only.
    """

    def __init__(
        self, inner: Callable[..., Awaitable[None]], *, may_upload: Callable[[Scope], Awaitable[bool]]
    ) -> None:
        self.inner = inner
        self.may_upload = may_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = _limit(scope["path"])
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > limit:
            await _refuse(scope, send, limit)
            return
        taken, known = 0, False
        if int(declared) > SMALL_BYTES:
            if not await self.may_upload(scope):
                await _refuse_stranger(scope, send)
                return
            known = True

        async def counted() -> Message:
            nonlocal taken, known
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:
                await _refuse(scope, send, limit)
                return {"type": "http.disconnect"}  # Django drops the request without another word
            if taken > SMALL_BYTES and not known:
                known = await self.may_upload(scope)
                if not known:
                    await _refuse_stranger(scope, send)
                    return {"type": "http.disconnect"}
            return message

        await self.inner(scope, counted, send)


def _limit(path: str) -> int:
    # A root path may stand in front; what matters is how the address ends.
    is_upload = any(path.rstrip("/").endswith(upload.rstrip("/")) for upload in UPLOAD_PATHS)
    return settings.IMPORT_MAX_BYTES + FORM_BYTES if is_upload else SMALL_BYTES


async def _refuse(scope: Scope, send: Send, limit: int) -> None:
    words = f"The request is larger than the {limit // 1024**2:,} MiB that this address takes."
    await _answer(scope, send, 413, words)


async def _refuse_stranger(scope: Scope, send: Send) -> None:
    words = f"Sign in, or send a researcher's token: of others this takes {SMALL_BYTES // 1024**2} MiB only."
    await _answer(scope, send, 401, words)


async def _answer(scope: Scope, send: Send, status: int, words: str) -> None:
    """In the API's shape, where it is the API's address."""
    kind, body = (
        (b"application/json", json.dumps({"detail": words}).encode())
        if "/api/" in scope["path"]
        else (b"text/plain; charset=utf-8", words.encode())
    )
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
