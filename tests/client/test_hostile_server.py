"""Hostile servers, and servers other than Retrace: the client reports one sentence, and always terminates."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from retrace import Client, RequestRefused, RetraceError, Retries, UnexpectedAnswer
from retrace.cli.output import harmless
from retrace.models.datasets import Version

DIGEST = "0" * 64
VERSION: dict[str, Any] = {
    "id": "1",
    "dataset": "1",
    "number": 1,
    "state": "frozen",
    "row_type": "preference",
    "row_counts": {},
    "rows_done": 0,
    "rows_expected": 0,
    "content_hash": DIGEST,
    "files": {"jsonl": {"train": {"rows": 1, "bytes": 10, "sha256": DIGEST}}},
    "recipe": {},
    "error": "",
    "created_at": "2026-01-01T00:00:00Z",
    "frozen_at": None,
    "url": "",
}


class _Server(ThreadingHTTPServer):
    status, body = 200, b""
    seen: list[str]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.seen.append(self.path)
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Disables logging."""


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def client(server: _Server) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{server.server_port}", "rt_x", retries=Retries(most=0)) as client:
        yield client


def test_an_answer_nested_without_end_is_no_answer(client: Client, server: _Server) -> None:
    server.body = b"[" * 100_000
    with pytest.raises(UnexpectedAnswer):
        client.runs.read("1")
    server.status = 400
    with pytest.raises(RequestRefused, match="without saying why"):
        client.runs.read("1")


def test_a_text_that_is_no_text_is_no_answer(client: Client, server: _Server) -> None:
    server.body = b"\xbd\xff"
    with pytest.raises(UnexpectedAnswer, match="no text"):
        client.policies.card("1")


@pytest.mark.parametrize("fields", [[1], {"name": 1}, {"name": None}, "name", 7])
def test_a_refusal_in_no_form_of_ours_is_one_all_the_same(client: Client, server: _Server, fields: Any) -> None:
    server.status, server.body = 422, json.dumps({"detail": "No.", "fields": fields}).encode()
    with pytest.raises(RequestRefused, match="without saying why"):
        client.runs.read("1")


def test_a_page_that_names_itself_as_the_next_one_ends_the_list(client: Client, server: _Server) -> None:
    server.body = b'{"next": "/api/v1/runs?cursor=a", "results": []}'
    with pytest.raises(UnexpectedAnswer, match="names itself"):
        list(client.runs.list())
    assert server.seen == ["/api/v1/runs", "/api/v1/runs?cursor=a"]


def test_a_download_ends_where_it_is_longer_than_it_should_be(client: Client, server: _Server, tmp_path: Path) -> None:
    server.body = b"x" * 1_000_000
    with pytest.raises(RetraceError, match="exceeds the"):
        client.export(Version(**VERSION), "train", to=tmp_path / "train.jsonl")
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 10


def test_what_writes_backward_in_a_terminal_is_escaped() -> None:
    assert harmless("a\u202eb\u2066c\u2028d\x1b[2J") == "a\\u202eb\\u2066c\\u2028d\\u001b[2J"
