"""A client for event loops that connects only where the rules allow, with limits on the size and duration of a reply.

It's httpx's client over aiohttp's connections: aiohttp parses replies in C and finds an idle connection without a scan of its pool, which saves
processor time (docs/decisions/one-way-out.md).
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary, finalize

import aiohttp
import httpx
import yarl
from aiohttp.abc import ResolveResult

from contract.outgoing import transport
from contract.outgoing.networks import AddressRefused, resolve
from contract.outgoing.reply_scheduler import PIECE_BYTES, ReplyScheduler
from contract.outgoing.transport import IDLE_SECONDS, UNPACKED, parsed, reachable, refuse_packed, tls_context

LOOKUPS = ThreadPoolExecutor(64, thread_name_prefix="lookup")
"""For event loops. A name's servers may not answer for half a minute, and the loop's own threads do other work for everybody."""
MAX_LOOKUPS = 4
"""For one asker."""
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Hashable, asyncio.Semaphore]] = (
    WeakKeyDictionary()
)
_readings: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Hashable, ReplyScheduler]] = (
    WeakKeyDictionary()
)
asker: ContextVar[Hashable] = ContextVar("asker", default="")
"""For whom the current task connects, such as a workspace: many names of one asker leave threads to others, and its replies the event loop."""
has_room: ContextVar[Callable[[int], bool] | None] = ContextVar("has_room", default=None)
"""Asked for each piece of a reply that is read: many replies at once may be more than fits into memory."""
AsyncClient = httpx.AsyncClient
"""What `async_http_client` returns, for annotations; don't construct it yourself."""
OF_AIOHTTP = ("content-length", "connection", "transfer-encoding")
"""Headers that aiohttp sets."""


def async_http_client(
    base_url: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float,
    connections: int,
    is_own: bool = False,
) -> httpx.AsyncClient:
    """Like `http_client`, for up to `connections` concurrent requests in one event loop.

    is_own: the address came from a process of this installation, not from a user, so the rules don't apply.
    """
    return _Client(
        base_url=parsed(base_url),
        headers={**(headers or {}), **UNPACKED},
        timeout=timeout,
        transport=_Transport(connections, resolve if is_own else reachable),
        trust_env=False,  # ignore proxies and the keys in ~/.netrc
        follow_redirects=False,
    )


def is_idle(client: httpx.AsyncClient) -> bool:
    """Whether no request of the client is under way."""
    used = client._transport
    return not isinstance(used, _Transport) or not used.under_way


class _Client(httpx.AsyncClient):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._urls: dict[str, httpx.URL] = {}
        """The URLs that were requested, resolved: there are few, and httpx would resolve them for each request."""

    def build_request(self, method: str, url: httpx.URL | str, **parts: Any) -> httpx.Request:
        if (name := str(url)) not in self._urls:
            self._urls[name] = super().build_request(method, name).url
        return super().build_request(method, self._urls[name], **parts)

    async def send(self, request: httpx.Request, *, stream: bool = False, **_: Any) -> httpx.Response:
        """Send a request as it is. httpx's own function would also look for redirects and keep servers' cookies."""
        response = await self._transport.handle_async_request(request)
        response.request = request
        if not stream:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response


class _Transport(httpx.AsyncBaseTransport):
    def __init__(self, connections: int, addresses: Callable[[str, int], list[str]]) -> None:
        self.under_way = 0
        """Requests whose replies aren't closed yet."""
        self._connections, self._addresses = connections, addresses
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        self.under_way += 1
        try:
            with _as_httpx(request):
                reply = await self._opened().request(
                    request.method,
                    yarl.URL(str(request.url), encoded=True),
                    headers=[(name, value) for name, value in request.headers.items() if name not in OF_AIOHTTP],
                    data=content or None,
                    timeout=_timeout(request),
                    allow_redirects=False,
                )
            body = _Body(self, request, reply)
            response = httpx.Response(reply.status, headers=reply.raw_headers, stream=body)
        except BaseException:
            self.under_way -= 1
            raise
        try:
            refuse_packed(response)
        except httpx.ReadError:
            await body.aclose()
            raise
        return response

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:  # it belongs to the event loop of its first request
            self._session = aiohttp.ClientSession(
                connector=_Connector(self._connections, self._addresses),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
            # aiohttp logs an error for a session that isn't closed, but the end of a process is none.
            finalize(self, self._session.detach)
        return self._session


class _Connector(aiohttp.TCPConnector):
    def __init__(self, connections: int, addresses: Callable[[str, int], list[str]]) -> None:
        super().__init__(limit=connections, ssl=tls_context(), keepalive_timeout=IDLE_SECONDS)
        self._addresses = addresses

    def __del__(self, _warnings: Any = None) -> None:
        """Like aiohttp's, but without its warning, for the same reason as above."""
        self._close()

    async def _resolve_host(self, host: str, port: int, traces: Any = None) -> list[ResolveResult]:
        """Checked addresses. This overrides a private method (aiohttp's version is pinned), since its public resolvers don't see hosts that are addresses."""
        loop = asyncio.get_running_loop()
        turns = _turns.setdefault(loop, WeakValueDictionary())
        turn = turns.setdefault(asker.get(), asyncio.Semaphore(MAX_LOOKUPS))
        await turn.acquire()
        lookup = loop.run_in_executor(LOOKUPS, self._addresses, host, port)  # a thread is busy until it ends
        lookup.add_done_callback(partial(_end_turn, turn))
        if not (resolved := await asyncio.shield(lookup)):
            raise OSError(f"{host} can't be resolved")
        return [_result(host, address, port) for address in resolved]


class _Body(httpx.AsyncByteStream):
    def __init__(self, transport: _Transport, request: httpx.Request, reply: aiohttp.ClientResponse) -> None:
        self._transport, self._request, self._reply = transport, request, reply
        self._bytes = sum(len(name) + len(value) for name, value in reply.raw_headers)
        readings = _readings.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        self._reading = readings.setdefault(asker.get(), ReplyScheduler())
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx(self._request):
            async for piece in self._reply.content.iter_any():
                self._bytes += len(piece)
                if self._bytes > transport.LARGEST_REPLY:
                    raise httpx.ReadError(f"the reply has more than {transport.LARGEST_REPLY >> 20} MB")
                if (fits := has_room.get()) is not None and not fits(len(piece)):
                    raise httpx.ReadError("there is no room for more replies at once")
                for start in range(0, len(piece), PIECE_BYTES):
                    part = piece[start : start + PIECE_BYTES]
                    await self._reading.turn(len(part))
                    yield part

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._transport.under_way -= 1
            self._reply.close()  # its connection, too, unless all of it was read


@contextmanager
def _as_httpx(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx.ConnectTimeout(str(error), request=request) from error
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, AddressRefused):
            raise error.os_error from None
        raise httpx.ConnectError(str(error.os_error), request=request) from error
    except TimeoutError as error:
        seconds = request.extensions.get("timeout", {}).get("read") or 0.0
        raise httpx.ReadTimeout(f"the reply wasn't complete after {seconds:.0f} s", request=request) from error
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientResponseError, aiohttp.ClientPayloadError) as error:
        raise httpx.RemoteProtocolError(str(error), request=request) from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx.ReadError(str(error) or type(error).__name__, request=request) from error


def _timeout(request: httpx.Request) -> aiohttp.ClientTimeout:
    """httpx's timeouts, but that for reading is for everything from connecting to the end of the reply."""
    seconds = request.extensions.get("timeout", {})
    return aiohttp.ClientTimeout(total=seconds.get("read"), connect=seconds.get("connect"))


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)


def _end_turn(turn: asyncio.Semaphore, lookup: "asyncio.Future[list[str]]") -> None:
    turn.release()
    if not lookup.cancelled():
        lookup.exception()  # nobody may be waiting for it any more
