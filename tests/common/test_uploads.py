"""The upload limits in front of Django, by declared and by actual length."""

import asyncio
import errno
import json

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from apps.accounts.credentials import is_member, is_researcher
from apps.accounts.models import Role
from apps.common import disk, uploads
from apps.common.uploads import FORM_BYTES, SMALL_BYTES, STRANGER_BYTES, LimitUploads
from tests import factories


class Exchange:
    """Send one request in blocks; returns the response."""

    def __init__(
        self, path: str, blocks: list[bytes], declared: int | None = None, *, is_known: bool = True, ends: bool = True
    ) -> None:
        headers = [] if declared is None else [(b"content-length", str(declared).encode())]
        self.scope = {"type": "http", "path": path, "headers": headers}
        self.blocks = list(blocks)
        self.answered: list[dict] = []
        self.taken = 0
        self.is_known = is_known
        self.is_member = is_known
        self.ends = ends
        self.asked = 0

    async def receive(self) -> dict:
        if not self.blocks:
            await asyncio.Event().wait()
        block = self.blocks.pop(0)
        return {"type": "http.request", "body": block, "more_body": bool(self.blocks) or not self.ends}

    async def send(self, message: dict) -> None:
        self.answered.append(message)

    async def inner(self, scope: dict, receive: object, send: object) -> None:
        """Reads the body like Django: to its end, or until the client disconnects."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            self.taken += len(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200})

    async def may_upload(self, scope: dict) -> bool:
        self.asked += 1
        return self.is_known

    async def is_a_member(self, scope: dict) -> bool:
        return self.is_member

    def limits(self) -> LimitUploads:
        return LimitUploads(self.inner, is_member=self.is_a_member, may_upload=self.may_upload)

    async def run(self, limits: LimitUploads | None = None) -> int:
        await (limits or self.limits())(self.scope, self.receive, self.send)
        return self.answered[0]["status"]


@pytest.fixture(autouse=True)
def small_limits(settings, monkeypatch):
    settings.IMPORT_MAX_BYTES = 1000
    monkeypatch.setattr(uploads, "FORM_BYTES", 10)
    monkeypatch.setattr(uploads, "SMALL_BYTES", 100)
    monkeypatch.setattr(uploads, "STRANGER_BYTES", 80)


def test_the_limits_leave_room_for_a_form_and_are_small_elsewhere():
    assert (FORM_BYTES, SMALL_BYTES, STRANGER_BYTES) == (1 << 20, 32 << 20, 512 << 10)


@pytest.mark.parametrize("path", ["/imports/", "/api/v1/imports", "/prefix/api/v1/imports"])
async def test_an_upload_may_be_as_long_as_an_import(path):
    exchange = Exchange(path, [b"x" * 500, b"x" * 510])
    assert (await exchange.run(), exchange.taken) == (200, 1010)


@pytest.mark.parametrize(
    ("path", "size"), [("/imports/", 1011), ("/api/v1/imports", 10**12), ("/queues/", 101), ("/", 101)]
)
async def test_a_declared_length_over_the_limit_is_refused_unread(path, size):
    exchange = Exchange(path, [b"x"], declared=size)
    assert (await exchange.run(), exchange.taken, len(exchange.blocks)) == (413, 0, 1)


async def test_a_length_that_is_no_number_is_refused():
    exchange = Exchange("/", [b"x"])
    exchange.scope["headers"] = [(b"content-length", b"1e3")]
    assert await exchange.run() == 413


@pytest.mark.parametrize("declared", [None, 5])
async def test_a_body_that_grows_over_the_limit_is_cut_whatever_it_declared(declared):
    exchange = Exchange("/queues/", [b"x" * 60] * 1000, declared=declared)
    assert await exchange.run() == 413
    assert exchange.taken == 60
    assert len(exchange.blocks) == 998
    assert len(exchange.answered) == 2  # the start and the body of one response


@pytest.mark.parametrize("declared", [None, 600])
async def test_of_a_stranger_an_upload_is_taken_no_further_than_any_body(declared):
    exchange = Exchange("/api/v1/imports", [b"x" * 60] * 10, declared=declared, is_known=False)
    exchange.is_member = True
    assert await exchange.run() == 401
    assert exchange.taken == (60 if declared is None else 0)
    assert json.loads(exchange.answered[1]["body"])["detail"].startswith("Sign in, or send a researcher's token")


@pytest.mark.parametrize("declared", [None, 90])
@pytest.mark.parametrize(("is_member", "status"), [(True, 200), (False, 401)])
async def test_of_a_stranger_little_is_taken_at_any_address(declared, is_member, status):
    exchange = Exchange("/", [b"x" * 45] * 2, declared=declared, is_known=False)
    exchange.is_member = is_member
    assert await exchange.run() == status


async def test_a_body_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(uploads, "IDLE_SECONDS", 0.0)
    exchange = Exchange("/", [b"x" * 10], ends=False)
    limits = exchange.limits()
    assert await asyncio.wait_for(exchange.run(limits), 20) == 408
    assert held_by(limits) == {False: (0, 0), True: (0, 0)}


async def test_a_client_that_has_sent_everything_is_waited_for_without_end(monkeypatch):
    """It may wait as long as a download takes, including its generation."""
    exchange = Exchange("/", [b"x"])

    async def inner(scope, receive, send):
        await receive()
        monkeypatch.setattr(uploads, "IDLE_SECONDS", 0.0)
        gone = asyncio.create_task(receive())
        await asyncio.sleep(0.05)
        assert not gone.done()
        gone.cancel()
        await send({"type": "http.response.start", "status": 200})

    exchange.inner = inner
    assert await exchange.run() == 200


async def test_bodies_that_wait_share_what_memory_there_is(monkeypatch):
    """The upload that has been idle longest is dropped, and strangers' uploads don't displace members'."""
    monkeypatch.setattr(uploads, "EACH_BYTES", 40)
    monkeypatch.setattr(uploads, "WAITING_BYTES", 150)
    limits = Exchange("/", []).limits()

    async def begun(size: int, *, is_known: bool) -> asyncio.Task:
        """A body that stalls after this many bytes."""
        exchange = Exchange("/", [b"x" * size], ends=False, is_known=is_known)
        limits.inner, limits.is_member = exchange.inner, exchange.is_a_member
        task = asyncio.create_task(exchange.run(limits))
        while exchange.blocks:
            await asyncio.sleep(0)
        return task

    member = await begun(90, is_known=True)
    strangers = [await begun(20, is_known=False) for _ in range(3)]
    assert await asyncio.wait_for(strangers.pop(0), 20) == 408
    assert held_by(limits) == {False: (2, 120), True: (1, 130)}
    second = await begun(90, is_known=True)
    assert await asyncio.wait_for(member, 20) == 408
    assert held_by(limits) == {False: (2, 120), True: (1, 130)}
    left = [second, *strangers]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    assert held_by(limits) == {False: (0, 0), True: (0, 0)}


def held_by(limits: LimitUploads) -> dict:
    """Number of bodies and bytes, of strangers and of members."""
    return {is_known: (len(waiting.bodies), waiting.held) for is_known, waiting in limits.waiting.items()}


@pytest.mark.parametrize(("size", "times"), [(100, 0), (101, 1), (1010, 1)])
async def test_who_sends_something_is_asked_once_and_only_of_what_is_large(size, times):
    exchange = Exchange("/imports/", [b"x" * 50] * (size // 50) + [b"x" * (size % 50)])
    assert (await exchange.run(), exchange.asked) == (200, times)


@pytest.mark.django_db(transaction=True)
async def test_members_and_researchers_are_known_by_a_token_or_by_their_session():
    def headers_of(role: Role) -> list[tuple[bytes, bytes]]:
        member, client = factories.member(role), Client()
        client.force_login(member.user)
        cookie = f"sessionid={client.cookies['sessionid'].value}"
        return [(b"authorization", f"Bearer {factories.token(member)}".encode()), (b"cookie", cookie.encode())]

    for role, expected in ((Role.RESEARCHER, True), (Role.REVIEWER, False)):
        for header in await sync_to_async(headers_of)(role):
            assert await is_researcher(scope_with(header)) == expected, (role, header[0])
            assert await is_member(scope_with(header)), (role, header[0])
    for header in ((b"authorization", b"Bearer rt_made-up"), (b"cookie", b"sessionid=made-up"), (b"accept", b"*/*")):
        assert not await is_researcher(scope_with(header))
        assert not await is_member(scope_with(header))


def scope_with(header: tuple[bytes, bytes]) -> dict:
    return {"type": "http", "method": "POST", "path": "/imports/", "query_string": b"", "headers": [header]}


async def test_a_body_that_does_not_fit_on_the_disk_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(uploads, "SPOOLED_BYTES", 10)
    monkeypatch.setattr(disk, "RESERVE_BYTES", 1 << 60)
    upload = Exchange("/api/v1/imports", [b"x" * 50], declared=50)
    assert await upload.run() == 507
    assert upload.taken == 0
    assert json.loads(upload.answered[1]["body"]) == {"detail": disk.FULL}


async def test_a_disk_that_fills_up_under_a_body_is_said_in_words():
    async def full(scope: object, receive: object, send: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    upload = Exchange("/imports/", [b"x" * 50])
    upload.inner = full
    assert await upload.run() == 507
    assert b"disk is full" in upload.answered[1]["body"]


async def test_other_faults_stay_what_they_are():
    async def broken(scope: object, receive: object, send: object) -> None:
        raise OSError(errno.ENOENT, "No such file or directory")

    upload = Exchange("/imports/", [b"x" * 50])
    upload.inner = broken
    with pytest.raises(FileNotFoundError):
        await upload.run()
