"""Limits the memory of responses that clients read slowly, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HELD_BYTES = 256 << 20
"""Memory per process for responses that are being sent."""

SMALL_BYTES = 256 << 10
"""Responses up to this size aren't counted: a process has few enough connections for them."""


@dataclass(eq=False)
class _Response:
    """A response that is being sent."""

    size: int
    read_at: float
    """When its client last made room for more, by the event loop's clock."""
    patience: asyncio.Timeout


class UnsentResponses:
    """The responses that a process is sending. If they're larger than HELD_BYTES together, those whose clients have read nothing for longest are broken off."""

    def __init__(self) -> None:
        self._responses: set[_Response] = set()
        self._held = 0

    async def send(self, size: int, send_parts: Callable[[Send], Awaitable[None]], send: Send) -> None:
        """Have `send_parts` send a response of `size` bytes, or a part of it."""
        if size <= SMALL_BYTES:
            await send_parts(send)
            return
        clock = asyncio.get_running_loop().time
        response = _Response(size, clock(), asyncio.timeout(None))

        async def noted(message: MutableMapping[str, Any]) -> None:
            await send(message)
            response.read_at = clock()

        try:
            async with response.patience:
                self._add(response)
                await send_parts(noted)
        except TimeoutError:
            if not response.patience.expired():
                raise
        finally:
            self._remove(response)

    def _add(self, response: _Response) -> None:
        while self._responses and self._held + response.size > HELD_BYTES:
            stalled = min(self._responses, key=lambda each: each.read_at)
            self._remove(stalled)
            stalled.patience.reschedule(0.0)
        self._responses.add(response)
        self._held += response.size

    def _remove(self, response: _Response) -> None:
        """Does nothing if it was removed before."""
        if response in self._responses:
            self._responses.remove(response)
            self._held -= response.size
