"""A proxy between the client and the real server that fails on request.

It forwards requests, one connection each. `fail` lists failures for the next requests; see the functions below.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Fault = Callable[["_Handler"], None]


class Network:
    """Listens at `url`. `seen`: requests received; `fail`: failures for the next ones."""

    def __init__(self, server: str) -> None:
        self.server = urlsplit(server)
        self.fail: list[Fault] = []
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.network = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Network:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def idempotency_keys(self) -> list[str | None]:
        """The idempotency key of each request."""
        return [headers.get("idempotency-key") for _, _, headers in self.seen]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        network: Network = self.server.network  # type: ignore[attr-defined]
        self.close_connection = True
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        network.seen.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
        (network.fail.pop(0) if network.fail else pass_on)(self)

    do_GET = do_POST = _handle

    def log_message(self, format: str, *arguments: object) -> None:
        """Disables logging."""

    @contextmanager
    def forwarded(self) -> Iterator[http.client.HTTPResponse]:
        network: Network = self.server.network  # type: ignore[attr-defined]
        connection = http.client.HTTPConnection(network.server.hostname or "", network.server.port)
        try:
            connection.request(self.command, self.path, self.body or None, dict(self.headers))
            yield connection.getresponse()
        finally:
            connection.close()

    def answer(self, status: int, headers: dict[str, str], body: bytes, *, length: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def pass_on(handler: _Handler) -> None:
    """Forward the request."""
    with handler.forwarded() as answer:
        handler.answer(answer.status, dict(answer.headers), answer.read())


def answer_lost(handler: _Handler) -> None:
    """Forward the request, but drop the response."""
    with handler.forwarded() as answer:
        answer.read()
    handler.connection.shutdown(socket.SHUT_RDWR)


def refused(status: int, **headers: str) -> Fault:
    """Respond like a proxy that can't reach the server."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.answer(status, named, b"<html>busy</html>")


def cut_after(count: int) -> Fault:
    """Truncate the response body after `count` bytes."""

    def cut(handler: _Handler) -> None:
        with handler.forwarded() as answer:
            body = answer.read()
        handler.answer(answer.status, dict(answer.headers), body[:count], length=len(body))
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)

    return cut
