"""Responses that a client reads slowly, or not at all."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from time import sleep
from urllib.parse import urlsplit

import httpx
import pytest
from asgiref.sync import ThreadSensitiveContext
from django.conf import settings
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from apps.common.downloads import BLOCK, BLOCKS_AT_ONCE, download, in_pages
from apps.trajectories.models import Step
from tests import factories
from tests.live import LiveStack

LONG = "x" * 1_000_000
CONNECTIONS = settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]


@contextmanager
def stalled(url: str, path: str, headers: dict[str, str]) -> Iterator[None]:
    """A client that sends a request, and reads only the beginning of the response."""
    place = urlsplit(url)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((place.hostname, place.port))
        lines = [f"GET {path} HTTP/1.1", f"Host: {place.netloc}", *(f"{name}: {it}" for name, it in headers.items())]
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        yield


@pytest.mark.parametrize("kind", ["made while it is sent", "made before it is sent"])
def test_clients_that_do_not_read_leave_the_database_to_others(live_stack: LiveStack, kind: str) -> None:
    reader = factories.member(Role.REVIEWER)
    words = [{"role": "user", "content": LONG}]
    trajectory = factories.trajectory(
        of=factories.task(of=reader.workspace), steps=[(words, factories.assistant_message(LONG * 6)) for _ in range(3)]
    )
    token = {"Authorization": f"Bearer {factories.token(reader)}"}
    if kind == "made while it is sent":
        path, headers = f"/api/v1/trajectories/{trajectory.pk}", token
    else:
        browser = Client()
        browser.force_login(reader.user)
        path = reverse("trajectories:part", args=[trajectory.pk, 0]) + "?at=said&raw=1"
        headers = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"}
    with ExitStack() as clients:
        for _ in range(CONNECTIONS + 1):
            clients.enter_context(stalled(live_stack.url, path, headers))
        answer = httpx.get(f"{live_stack.url}/api/v1/trajectories?page_size=1", headers=token, timeout=60)
    assert answer.status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_pages_hold_each_row_once_and_in_order(count: int, django_assert_num_queries) -> None:
    made = factories.trajectory(steps=[([], factories.assistant_message(str(index))) for index in range(count)])
    with django_assert_num_queries(count // 2 + 1):
        steps = list(in_pages(Step.objects.filter(trajectory=made), by="index", size=2))
    assert [step.message["content"] for step in steps] == [str(index) for index in range(count)]


async def test_a_few_blocks_are_generated_at_once_however_many_downloads_there_are() -> None:
    under_way, most = 0, 0
    lock = Lock()

    def parts() -> Iterator[str]:
        nonlocal under_way, most
        for _ in range(3):
            with lock:
                under_way += 1
                most = max(most, under_way)
            sleep(0.01)
            with lock:
                under_way -= 1
            yield "x" * BLOCK

    async def read() -> int:
        async with ThreadSensitiveContext():  # as in a web process: each request has its own thread
            response = download(parts(), filename="rows.jsonl", content_type="application/jsonl")
            return sum([len(block) async for block in response])

    assert await asyncio.gather(*[read() for _ in range(12)]) == [3 * BLOCK] * 12
    assert most <= BLOCKS_AT_ONCE
