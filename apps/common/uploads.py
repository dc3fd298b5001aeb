"""Limits what a request may bring, before Django writes its body to disk."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string

from apps.common import disk

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

FORM_BYTES = 1 << 20
"""What a multipart form adds around its file."""

SMALL_BYTES = 32 << 20
"""What a request to any other address may bring."""

SPOOLED_BYTES = 2.5 * (1 << 20)
"""What Django keeps of a body in memory; anything larger goes to the disk."""

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
        if not declared.isdigit() or len(declared) > 18 or int(declared) > limit:
            await _refuse(scope, send, limit)
            return
        if int(declared) > SPOOLED_BYTES and not disk.has_room(int(declared)):
            await _refuse_full(scope, send)
            return
        taken, known, answering = 0, False, False
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

        async def noted(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            await self.inner(scope, counted, noted)
        except OSError as error:  # Django reads the body before any handler of errors is around
            if answering or not disk.says_full(error):
                raise
            await _refuse_full(scope, send)


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


async def _refuse_full(scope: Scope, send: Send) -> None:
    await _answer(scope, send, 507, disk.FULL, page="507.html")


async def _answer(scope: Scope, send: Send, status: int, words: str, *, page: str = "") -> None:
    """In the API's shape, where it is the API's address; else as a page, where there is one."""
    if "/api/" in scope["path"]:
        kind, body = b"application/json", json.dumps({"detail": words}).encode()
    elif page:
        kind, body = b"text/html; charset=utf-8", render_to_string(page).encode()
    else:
        kind, body = b"text/plain; charset=utf-8", words.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
