"""WebSockets: unexpected messages and requests from visitors."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts import middleware
from apps.asgi import application
from apps.common import live

ORIGIN = [(b"host", b"testserver"), (b"origin", b"http://testserver")]
ID = "00000000-0000-7000-8000-000000000000"  # the same in every process that collects these tests
ADDRESSES = [
    "/",
    "/ws/",
    "/ws/no/such/",
    f"/ws/runs/{ID}",
    f"/ws/runs/{ID}/more/",
    "/ws/runs/x/",
    "/api/v1/runs",
    "/ws/runs/%00/",
]


def socket_to(
    path: str, *headers: tuple[bytes, bytes], app: Any = application, **scope: Any
) -> ApplicationCommunicator:
    connection = {
        "type": "websocket",
        "path": path,
        "query_string": b"",
        "subprotocols": [],
        "headers": [*ORIGIN, *headers],
    }
    return ApplicationCommunicator(app, {**connection, **scope})


async def refusal_of(socket: ApplicationCommunicator) -> dict[str, Any]:
    await socket.send_input({"type": "websocket.connect"})
    answer: dict[str, Any] = await socket.receive_output(timeout=5)
    return answer


NOT_FOUND = {"type": "websocket.close", "code": live.NOT_FOUND}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "path", [*ADDRESSES, f"/ws/runs/{ID}/", f"/ws/imports/{ID}/", f"/ws/rollouts/{ID}/episodes/a/"]
)
async def test_an_unknown_address_is_closed_like_one_that_may_not_be_seen(path: str) -> None:
    assert await refusal_of(socket_to(path)) == NOT_FOUND


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("cookie", [b"sessionid=\xff\x00", b"=;=;", b"sessionid=" + b"9" * 5000, b"a" * 20_000])
async def test_odd_cookies_are_those_of_a_stranger(cookie: bytes) -> None:
    assert await refusal_of(socket_to(f"/ws/runs/{ID}/", (b"cookie", cookie))) == NOT_FOUND


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("origin", "host", "is_ours"),
    [
        ("http://testserver", "testserver", True),
        ("https://testserver", "testserver:443", True),
        ("http://testserver:8000", "testserver:8000", True),
        ("http://testserver:3000", "testserver:8000", False),
        ("http://testserver:3000", "testserver", False),
        ("https://testserver", "testserver:8000", False),
        ("https://evil.example", "evil.example", False),
        ("https://evil.example", "testserver", False),
        ("https://trusted.example", "testserver", False),
        ("http://[", "testserver", False),
        ("http://testserver:99999", "testserver", False),
        ("null", "testserver", False),
        ("", "testserver", False),
    ],
)
async def test_only_our_own_pages_open_sockets_those_of_other_ports_do_not(
    origin: str, host: str, is_ours: bool
) -> None:
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    answer = await refusal_of(socket_to(f"/ws/runs/{ID}/", *headers))
    assert (answer.get("code") == live.NOT_FOUND) == is_ours, answer


class Watching(live.LiveConsumer):
    """A consumer that adds every client to a group."""

    def find_group(self, member: object) -> str:
        return "test.group"

    def _find_group_again(self) -> str:
        return "test.group"


class Somebody:
    pk = 1


async def connected() -> ApplicationCommunicator:
    socket = socket_to("/", app=Watching.as_asgi(), member=Somebody(), session_is_over=lambda: False)
    assert (await refusal_of(socket))["type"] == "websocket.accept"
    return socket


FRAMES = ["", "{}", "[" * 100_000, "x" * 1_000_000, b"", b"\xff" * 1000, '{"type": "partial", "html": "x"}']


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
async def test_whoever_sends_something_is_closed(frame: str | bytes) -> None:
    socket = await connected()
    key = "text" if isinstance(frame, str) else "bytes"
    await socket.send_input({"type": "websocket.receive", key: frame})
    assert await socket.receive_output() == {"type": "websocket.close", "code": live.NOTHING_TO_SAY}


async def test_news_with_lone_surrogates_arrive_escaped() -> None:
    socket = await connected()
    await sync_to_async(live.send)("test.group", "half of a character: \ud83d")
    assert await socket.receive_output() == {"type": "websocket.send", "text": r"half of a character: \ud83d"}
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait()


@pytest.mark.django_db(transaction=True)
@given(path=st.text(max_size=60))
def test_no_path_is_a_fault(path: str) -> None:
    assert asyncio.run(refusal_of(socket_to(f"/{path}"))) == NOT_FOUND


async def test_one_person_has_only_so_many_sockets_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection would check its access whenever one of that person's sessions ends, before anybody else's."""
    monkeypatch.setattr(middleware, "MAX_SOCKETS", 2)
    monkeypatch.setattr(middleware, "current_membership", lambda user, session: user)
    monkeypatch.setattr(middleware, "_is_over", lambda session, user_id: False)
    sockets = middleware.MemberOnSocket(Watching.as_asgi())

    async def opened(pk: int) -> tuple[str, ApplicationCommunicator]:
        user = Somebody()
        user.pk = pk
        socket = socket_to("/", app=sockets, user=user, session={})
        return (await refusal_of(socket))["type"], socket

    (first, socket), (second, _), (third, _) = [await opened(1) for _ in range(3)]
    assert (first, second, third) == ("websocket.accept", "websocket.accept", "websocket.close")
    assert (await opened(2))[0] == "websocket.accept"
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait()
    assert (await opened(1))[0] == "websocket.accept"
