"""Divides an event loop's time among those for whom replies are read.

Parsing a reply of very many small events takes much more time than receiving it. Without limits, a hundred of them occupy every pass of the
event loop for seconds, and whoever needs several passes, such as another workspace's call, waits for a minute.
"""

import asyncio
from collections import deque

PIECE_BYTES = 16 * 1024
"""A larger piece of a reply is processed in several passes."""
PASS_BYTES = 16 * 1024
"""How much of one asker's replies is processed in a pass of the event loop on average: about 10 ms for events of one token."""


class ReplyScheduler:
    """One asker's replies in one event loop. They take turns, so that those of others wait for at most one of them in each pass."""

    def __init__(self) -> None:
        self._left = PASS_BYTES
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._renews = False

    async def turn(self, size: int) -> None:
        """Wait until a piece of this many bytes may be processed."""
        if self._left > 0:
            self._take(size)
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((future, size))
        await future

    def _take(self, size: int) -> None:
        self._left -= size
        self._renew_soon()

    def _renew_soon(self) -> None:
        if not self._renews:
            self._renews = True
            asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        """A new pass: let those continue that have waited longest.

        What the last pass took beyond its share, since the last piece rarely fits in exactly, is missing from this one.
        """
        self._renews, self._left = False, min(PASS_BYTES, self._left + PASS_BYTES)
        while self._waiting and self._left > 0:
            future, size = self._waiting.popleft()
            if not future.done():  # cancelled
                self._take(size)
                future.set_result(None)
        if self._waiting:
            self._renew_soon()
