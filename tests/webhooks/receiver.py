"""A real HTTP server that receives webhooks. It can misbehave."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    body: str


class Receiver:
    """Answers each request with the next of `statuses`; the last one is repeated."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses) or [204]
        self.received: list[Received] = []
        self.answer = b""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.received.append(Received(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status = outer.statuses.pop(0) if len(outer.statuses) > 1 else outer.statuses[0]
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"http://127.0.0.1:{outer.port}/elsewhere")
                self.send_header("Content-Length", "0" if status == 204 else str(len(outer.answer)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(outer.answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hooks/retrace?team=a"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
