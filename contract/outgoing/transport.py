"""Clients and sockets that connect only where the rules allow, with limits on the size and duration of a reply."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import httpcore
import httpx

from contract.outgoing.networks import AddressRefused, OutgoingRules, resolve

LARGEST_REPLY = 64 * 1024 * 1024
"""Maximum bytes of one reply, including headers."""
READ_AT_ONCE = 4096
"""Bytes of a reply that an event loop reads before it yields: as one-byte chunks, they take about ten milliseconds."""
IDLE_SECONDS = 3.0
"""How long an idle connection is kept. uvicorn, and so vLLM, closes one after 5 s; a request sent meanwhile would be lost."""
LOOKUPS = ThreadPoolExecutor(64, thread_name_prefix="lookup")
"""For event loops. A name's servers may not answer for half a minute, and the loop's own threads do other work for everybody."""
MAX_LOOKUPS = 4
"""For one asker."""
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[Hashable, asyncio.Semaphore]] = (
    WeakKeyDictionary()
)
asker: ContextVar[Hashable] = ContextVar("asker", default="")
"""For whom the current task connects, such as a workspace: many names of one asker leave threads to others."""
has_room: ContextVar[Callable[[int], bool] | None] = ContextVar("has_room", default=None)
"""Asked for each piece of a reply that an event loop reads: many replies at once may be more than fits into memory."""
Client = httpx.Client
AsyncClient = httpx.AsyncClient
"""What `http_client` and `async_http_client` return, for annotations; don't construct it yourself."""
UNPACKED = {"Accept-Encoding": "identity"}
"""A small compressed reply could fill the memory here (a zip bomb), so compression is neither requested nor accepted."""


def http_client(
    base_url: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float,
    rules: Callable[[], OutgoingRules] = OutgoingRules.from_environment,
) -> httpx.Client:
    """A client for one server. `timeout`: seconds for connecting, and for the whole reply. It and its requests raise AddressRefused.

    rules: returns the rules in force when a connection is made.
    """
    return httpx.Client(
        base_url=_parsed(base_url),
        headers={**(headers or {}), **UNPACKED},
        timeout=timeout,
        transport=_Transport(partial(_reachable, rules=rules)),
        trust_env=False,  # ignore proxies and the keys in ~/.netrc
        follow_redirects=False,
    )


def async_http_client(
    base_url: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float,
    connections: int,
    is_own: bool = False,
) -> httpx.AsyncClient:
    """Like `http_client`, for up to `connections` concurrent requests.

    is_own: the address came from a process of this installation, not from a user, so the rules don't apply.
    """
    return httpx.AsyncClient(
        base_url=_parsed(base_url),
        headers={**(headers or {}), **UNPACKED},
        timeout=timeout,
        transport=_AsyncTransport(connections, is_own=is_own),
        trust_env=False,
        follow_redirects=False,
    )


def is_idle(client: httpx.AsyncClient) -> bool:
    """Whether no request of the client is under way."""
    transport = client._transport
    return not isinstance(transport, _AsyncTransport) or transport.is_idle()


def connected_socket(host: str, port: int, *, timeout: float) -> socket.socket:
    """A connected socket, for protocols other than HTTP. Raises AddressRefused, OSError."""
    problem: OSError = OSError(f"{host} can't be resolved")
    for address in _reachable(host, port):
        try:
            return socket.create_connection((address, port), timeout)
        except OSError as error:
            problem = error
    raise problem


def _parsed(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
        url.host  # noqa: B018  # which may be no name, too: httpx finds out when it's read
        return url
    except (httpx.InvalidURL, UnicodeError) as error:
        raise AddressRefused(f"{base_url} isn't a server address: {error}.") from None


def _reachable(host: str, port: int, rules: Callable[[], OutgoingRules] = OutgoingRules.from_environment) -> list[str]:
    """Checked addresses of a host; none if it doesn't resolve. Raises AddressRefused."""
    resolved = resolve(host, port)
    return rules().reachable(host, port, resolved) if resolved else []


@cache
def _tls() -> ssl.SSLContext:
    """Reading the system's certificates takes about 20 ms of processor time, so all clients share them."""
    return httpx.create_ssl_context()


class _Transport(httpx.HTTPTransport):
    def __init__(self, addresses: Callable[[str, int], list[str]]) -> None:
        super().__init__(verify=_tls())
        # httpx has no public way to pass a network backend to its pool; its version is pinned.
        self._pool = httpcore.ConnectionPool(
            ssl_context=_tls(), keepalive_expiry=IDLE_SECONDS, network_backend=_Backend(addresses)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        try:
            _refuse_packed(response)
        except httpx.ReadError:
            response.close()
            raise
        return response


class _AsyncTransport(httpx.AsyncHTTPTransport):
    def __init__(self, connections: int, *, is_own: bool) -> None:
        super().__init__(verify=_tls())
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=_tls(),
            max_connections=connections,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=_AsyncBackend(resolve if is_own else _reachable),
        )

    def is_idle(self) -> bool:
        return all(connection.is_idle() or connection.is_closed() for connection in self._pool.connections)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        try:
            _refuse_packed(response)
        except httpx.ReadError:
            await response.aclose()
            raise
        return response


def _refuse_packed(response: httpx.Response) -> None:
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise httpx.ReadError("the reply is compressed, which wasn't requested")


class _Bounds:
    """Bytes of a reply received, and since when: the clock starts with the last chunk of the request."""

    def __init__(self) -> None:
        self.asked()

    def asked(self) -> None:
        self._bytes, self._since = 0, time.monotonic()

    def seconds_left(self, timeout: float | None) -> float | None:
        if timeout is None:
            return None
        remaining = self._since + timeout - time.monotonic()
        if remaining <= 0:
            raise httpcore.ReadTimeout(f"the reply wasn't complete after {timeout:.0f} s")
        return remaining

    def count(self, piece: bytes) -> bytes:
        self._bytes += len(piece)
        if self._bytes > LARGEST_REPLY:
            raise httpcore.ReadError(f"the reply has more than {LARGEST_REPLY >> 20} MB")
        return piece


class _Backend(httpcore.NetworkBackend):
    def __init__(self, addresses: Callable[[str, int], list[str]]) -> None:
        self._inner = httpcore.SyncBackend()
        self._addresses = addresses

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        problem: Exception = httpcore.ConnectError(f"{host} can't be resolved")
        for address in self._addresses(host, port):
            try:
                return _Stream(self._inner.connect_tcp(address, port, timeout, local_address, socket_options))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                problem = error
        raise problem


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner, self._bounds = inner, _Bounds()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._bounds.count(self._inner.read(max_bytes, self._bounds.seconds_left(timeout)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)
        self._bounds.asked()

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _AsyncBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, addresses: Callable[[str, int], list[str]]) -> None:
        self._inner = httpcore.AnyIOBackend()
        self._addresses = addresses

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        problem: Exception = httpcore.ConnectError(f"{host} can't be resolved")
        for address in await self._resolved(host, port, timeout):
            try:
                return _AsyncStream(
                    await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                problem = error
        raise problem

    async def _resolved(self, host: str, port: int, timeout: float | None) -> list[str]:
        """Waits no longer than `timeout`, but a thread is busy until the lookup ends."""
        loop = asyncio.get_running_loop()
        turns = _turns.setdefault(loop, WeakValueDictionary())
        turn = turns.setdefault(asker.get(), asyncio.Semaphore(MAX_LOOKUPS))
        try:
            async with asyncio.timeout(timeout):
                await turn.acquire()
                lookup = loop.run_in_executor(LOOKUPS, self._addresses, host, port)
                lookup.add_done_callback(partial(_end_turn, turn))
                return await asyncio.shield(lookup)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host} wasn't resolved in {timeout:.0f} s") from None

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


def _end_turn(turn: asyncio.Semaphore, lookup: "asyncio.Future[list[str]]") -> None:
    turn.release()
    if not lookup.cancelled():
        lookup.exception()  # nobody may be waiting for it any more


class _AsyncStream(httpcore.AsyncNetworkStream):
    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner, self._bounds = inner, _Bounds()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        some = min(max_bytes, READ_AT_ONCE)
        piece = self._bounds.count(await self._inner.read(some, self._bounds.seconds_left(timeout)))
        if (fits := has_room.get()) is not None and not fits(len(piece)):
            raise httpcore.ReadError("there is no room for more replies at once")
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)
        self._bounds.asked()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _AsyncStream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
