"""A reply that is passed on as a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from contract.disconnection import cancel_on_disconnect

if TYPE_CHECKING:
    from apps.gateway.exchange import Exchange

SSE = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store", "x-accel-buffering": "no"}


class StreamedResponse(Response):
    """Passes a stream on, and ends it upstream when the agent disconnects, so that an engine doesn't compute what nobody reads."""

    def __init__(self, exchange: Exchange, upstream: httpx.Response) -> None:
        super().__init__(headers={**SSE, **exchange.headers})
        del self.headers["content-length"]
        self._exchange, self._upstream = exchange, upstream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await cancel_on_disconnect(self._pump(send), receive)
        except (ClientDisconnect, OSError):
            await self._upstream.aclose()
            await self._exchange.record_disconnect()

    async def _pump(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        has_ended = False
        async for piece in self._exchange.streamed(self._upstream):
            has_ended = self._exchange.has_ended
            await send({"type": "http.response.body", "body": piece, "more_body": not has_ended})
        if not has_ended:
            await send({"type": "http.response.body", "body": b""})
