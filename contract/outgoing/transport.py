"""Clients and sockets that connect only where the rules allow, with limits on the size and duration of a reply."""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import httpcore
import httpx

from contract.outgoing.networks import AddressRefused, OutgoingRules, resolve

LARGEST_REPLY = 64 * 1024 * 1024
"""Maximum bytes of one reply, including headers."""
MAX_ADDRESSES = 16
"""Addresses of one name that are tried. A reply of the DNS may hold thousands, none of which answers."""
IDLE_SECONDS = 3.0
"""How long an idle connection is kept. uvicorn, and so vLLM, closes one after 5 s; a request sent meanwhile would be lost."""
Client = httpx.Client
"""What `http_client` returns, for annotations; don't construct it yourself."""
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
        base_url=parsed(base_url),
        headers={**(headers or {}), **UNPACKED},
        timeout=timeout,
        transport=_Transport(partial(reachable, rules=rules)),
        trust_env=False,  # ignore proxies and the keys in ~/.netrc
        follow_redirects=False,
    )


def connected_socket(host: str, port: int, *, timeout: float) -> socket.socket:
    """A connected socket, for protocols other than HTTP. Raises AddressRefused, OSError."""
    problem: OSError = OSError(f"{host} can't be resolved")
    for address, seconds in _in_time(reachable(host, port), timeout):
        try:
            return socket.create_connection((address, port), seconds)
        except OSError as error:
            problem = error
    raise problem


def _in_time(addresses: Sequence[str], timeout: float | None) -> Iterator[tuple[str, float | None]]:
    """Each address with its share of the remaining time, so that all of them together take no longer than `timeout`."""
    end = None if timeout is None else time.monotonic() + timeout
    for number, address in enumerate(addresses):
        yield address, None if end is None else max(end - time.monotonic(), 0.1) / (len(addresses) - number)


def parsed(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
        url.host  # noqa: B018  # which may be no name, too: httpx finds out when it's read
        return url
    except (httpx.InvalidURL, UnicodeError) as error:
        raise AddressRefused(f"{base_url} isn't a server address: {error}.") from None


def reachable(host: str, port: int, rules: Callable[[], OutgoingRules] = OutgoingRules.from_environment) -> list[str]:
    """Checked addresses of a host; none if it doesn't resolve. Raises AddressRefused."""
    resolved = resolve(host, port)[:MAX_ADDRESSES]
    return rules().reachable(host, port, resolved) if resolved else []


@cache
def tls_context() -> ssl.SSLContext:
    """Reading the system's certificates takes about 20 ms of processor time, so all clients share them."""
    return httpx.create_ssl_context()


class _Transport(httpx.HTTPTransport):
    def __init__(self, addresses: Callable[[str, int], list[str]]) -> None:
        super().__init__(verify=tls_context())
        # httpx has no public way to pass a network backend to its pool; its version is pinned.
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls_context(), keepalive_expiry=IDLE_SECONDS, network_backend=_Backend(addresses)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        try:
            refuse_packed(response)
        except httpx.ReadError:
            response.close()
            raise
        return response


def refuse_packed(response: httpx.Response) -> None:
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
        for address, seconds in _in_time(self._addresses(host, port), timeout):
            try:
                return _Stream(self._inner.connect_tcp(address, port, seconds, local_address, socket_options))
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
