"""Limits request bodies before Django spools them to disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string

from apps.common import disk

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

FORM_BYTES = 1 << 20
"""Overhead of a multipart form around its file."""

SMALL_BYTES = 32 << 20
"""Maximum body size at any other address."""

STRANGER_BYTES = 512 << 10
"""The same for anonymous senders. Public forms and feedback from other sites need far less."""

SPOOLED_BYTES = 5 << 19
"""How much of a body Django keeps in memory; larger ones are spooled to disk."""

IDLE_SECONDS = 60.0
"""Timeout without a byte before an incomplete body is dropped."""

WAITING_BYTES = 64 << 20
"""Memory per process for incomplete bodies of members, and as much again for anonymous senders."""

EACH_BYTES = 16 << 10
"""Fixed memory cost of such a body."""

UPLOAD_PATHS = ("/imports/", "/api/v1/imports")

GONE: Message = {"type": "http.disconnect"}
"""Django silently drops such a request."""


@dataclass(eq=False)
class _Body:
    """An incomplete body."""

    is_known: bool = False
    """Whether it's from a member."""
    may_upload: bool = False
    taken: int = 0
    held: int = 0
    """Bytes of memory."""
    came_at: float = 0.0
    """When data last arrived, by the event loop's clock."""
    is_given_up: bool = False
    patience: asyncio.Timeout | None = field(default=None, repr=False)
    """Set while it's awaited."""

    def give_up(self) -> None:
        """Drop the body. Its reader notices immediately, or at the next read."""
        self.is_given_up = True
        if self.patience is not None:
            self.patience.reschedule(asyncio.get_running_loop().time())


class _Waiting:
    """All incomplete bodies, and their total memory."""

    def __init__(self) -> None:
        self.bodies: set[_Body] = set()
        self.held = 0

    def add(self, body: _Body) -> None:
        self.bodies.add(body)
        self.held += body.held

    def remove(self, body: _Body) -> None:
        """Does nothing if it isn't among them."""
        if body in self.bodies:
            self.bodies.remove(body)
            self.held -= body.held


class LimitUploads:
    """ASGI: refuses bodies larger than the address, or the sender, is allowed, and drops stalled ones.

    Django's handler spools every body to memory and disk before any of our views or middleware runs, even for anonymous senders; this runs before it.
    `is_member` tells whether a request is from a member, `may_upload` whether its sender may exceed SMALL_BYTES; each is only called for
    larger bodies.

    Incomplete bodies of members share WAITING_BYTES, and so do those of all other or unchecked senders. When it's exhausted, the body
    that has been idle longest is dropped.
    """

    def __init__(
        self,
        inner: Callable[..., Awaitable[None]],
        *,
        is_member: Callable[[Scope], Awaitable[bool]],
        may_upload: Callable[[Scope], Awaitable[bool]],
    ) -> None:
        self.inner = inner
        self.is_member = is_member
        self.may_upload = may_upload
        self.waiting = {is_known: _Waiting() for is_known in (False, True)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = _limit(scope["path"])
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > limit:
            await _refuse(scope, send, limit)
            return
        if int(declared) > SPOOLED_BYTES and not disk.has_room(int(declared)):
            await _refuse_full(scope, send)
            return
        body, has_ended, answering = _Body(), False, False
        if not await self._may_bring(int(declared), body, scope, send):
            return

        async def counted() -> Message:
            nonlocal has_ended
            message = await (receive() if has_ended else self._next(body, receive))
            if message is None:
                await _answer(scope, send, 408, "The rest of the request didn't arrive in time. Send it again.")
                return GONE
            size = body.taken
            body.taken += len(message.get("body", b""))
            has_ended = has_ended or not message.get("more_body", False)
            if body.taken > limit:
                await _refuse(scope, send, limit)
                return GONE
            if not await self._may_bring(body.taken, body, scope, send):
                return GONE
            if body.taken // SMALL_BYTES > size // SMALL_BYTES and not disk.has_room():
                await _refuse_full(scope, send)
                return GONE
            self._make_room(body, has_ended=has_ended)
            return message

        async def noted(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            await self.inner(scope, counted, noted)
        except OSError as error:  # Django reads the body outside any error handler
            if answering or not disk.is_out_of_space(error):
                raise
            await _refuse_full(scope, send)
        finally:
            self._forget(body)

    async def _may_bring(self, size: int, body: _Body, scope: Scope, send: Send) -> bool:
        """Whether the sender may send this much; if not, this sends the refusal."""
        if size > SMALL_BYTES and not body.may_upload:
            body.is_known = body.may_upload = await self.may_upload(scope)
            if not body.may_upload:
                await _refuse_sender(scope, send, "a researcher's token", SMALL_BYTES)
            return body.may_upload
        if size > STRANGER_BYTES and not body.is_known:
            body.is_known = await self.is_member(scope)
            if not body.is_known:
                await _refuse_sender(scope, send, "a token", STRANGER_BYTES)
            return body.is_known
        return True

    async def _next(self, body: _Body, receive: Receive) -> Message | None:
        """The next message; None on timeout, or if there's no memory to wait for it."""
        if body.is_given_up:
            return None
        body.patience = asyncio.timeout(IDLE_SECONDS)
        try:
            async with body.patience:
                return await receive()
        except TimeoutError:
            return None
        finally:
            body.patience = None

    def _make_room(self, body: _Body, *, has_ended: bool) -> None:
        """Record received data, and drop other bodies if the total is too large."""
        self._forget(body)
        if has_ended:
            return
        body.came_at = asyncio.get_running_loop().time()
        body.held = EACH_BYTES + min(body.taken, SPOOLED_BYTES)
        waiting = self.waiting[body.is_known]
        waiting.add(body)
        while waiting.held > WAITING_BYTES:
            last = min(waiting.bodies, key=lambda body: body.came_at)
            waiting.remove(last)
            last.give_up()

    def _forget(self, body: _Body) -> None:
        """Remove it from the total."""
        for waiting in self.waiting.values():
            waiting.remove(body)


def _limit(path: str) -> int:
    # There may be a root path prefix, so match the end of the address.
    is_upload = any(path.rstrip("/").endswith(upload.rstrip("/")) for upload in UPLOAD_PATHS)
    return settings.IMPORT_MAX_BYTES + FORM_BYTES if is_upload else SMALL_BYTES


async def _refuse(scope: Scope, send: Send, limit: int) -> None:
    message = f"The request is larger than the {limit // 1024**2:,} MiB that this address accepts."
    await _answer(scope, send, 413, message)


async def _refuse_sender(scope: Scope, send: Send, token: str, limit: int) -> None:
    size = f"{limit // 1024**2} MiB" if limit >= 1 << 20 else f"{limit // 1024} KiB"
    await _answer(scope, send, 401, f"Sign in, or send {token}: from others, this address accepts at most {size}.")


async def _refuse_full(scope: Scope, send: Send) -> None:
    await _answer(scope, send, 507, disk.FULL, page="507.html")


async def _answer(scope: Scope, send: Send, status: int, message: str, *, page: str = "") -> None:
    """Send an error in the API's format for API addresses; otherwise as a page, if there is one."""
    if "/api/" in scope["path"]:
        kind, body = b"application/json", json.dumps({"detail": message}).encode()
    elif page:
        kind, body = b"text/html; charset=utf-8", render_to_string(page).encode()
    else:
        kind, body = b"text/plain; charset=utf-8", message.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
