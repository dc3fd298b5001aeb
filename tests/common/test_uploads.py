"""The limit in front of Django: what may be sent where, by its declared and by its true length."""

import errno
import json

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from apps.accounts.credentials import is_researcher
from apps.accounts.models import Role
from apps.common import disk, uploads
from apps.common.uploads import FORM_BYTES, SMALL_BYTES, LimitUploads
from tests import factories


class Exchange:
    """One request in blocks, and what was answered."""

    def __init__(self, path: str, blocks: list[bytes], declared: int | None = None, *, is_known: bool = True) -> None:
        headers = [] if declared is None else [(b"content-length", str(declared).encode())]
        self.scope = {"type": "http", "path": path, "headers": headers}
        self.blocks = list(blocks)
        self.answered: list[dict] = []
        self.taken = 0
        self.is_known = is_known
        self.asked = 0

    async def receive(self) -> dict:
        block = self.blocks.pop(0)
        return {"type": "http.request", "body": block, "more_body": bool(self.blocks)}

    async def send(self, message: dict) -> None:
        self.answered.append(message)

    async def inner(self, scope: dict, receive: object, send: object) -> None:
        """Reads the body as Django does: to its end, or until the client is gone."""
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

    async def run(self) -> int:
        await LimitUploads(self.inner, may_upload=self.may_upload)(self.scope, self.receive, self.send)
        return self.answered[0]["status"]


@pytest.fixture(autouse=True)
def small_limits(settings, monkeypatch):
    settings.IMPORT_MAX_BYTES = 1000
    monkeypatch.setattr(uploads, "FORM_BYTES", 10)
    monkeypatch.setattr(uploads, "SMALL_BYTES", 100)


def test_the_limits_leave_room_for_a_form_and_are_small_elsewhere():
    assert (FORM_BYTES, SMALL_BYTES) == (1 << 20, 32 << 20)


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
    assert len(exchange.answered) == 2  # the start and the body of one answer


@pytest.mark.parametrize("declared", [None, 600])
async def test_of_a_stranger_an_upload_is_taken_no_further_than_any_body(declared):
    exchange = Exchange("/api/v1/imports", [b"x" * 60] * 10, declared=declared, is_known=False)
    assert await exchange.run() == 401
    assert exchange.taken == (60 if declared is None else 0)
    assert json.loads(exchange.answered[1]["body"])["detail"].startswith("Sign in, or send a researcher's token")


@pytest.mark.parametrize(("size", "times"), [(100, 0), (101, 1), (1010, 1)])
async def test_who_sends_something_is_asked_once_and_only_of_what_is_large(size, times):
    exchange = Exchange("/imports/", [b"x" * 50] * (size // 50) + [b"x" * (size % 50)])
    assert (await exchange.run(), exchange.asked) == (200, times)


@pytest.mark.django_db(transaction=True)
async def test_researchers_are_known_by_a_token_or_by_their_session():
    def headers_of(role: Role) -> list[tuple[bytes, bytes]]:
        member, client = factories.member(role), Client()
        client.force_login(member.user)
        cookie = f"sessionid={client.cookies['sessionid'].value}"
        return [(b"authorization", f"Bearer {factories.token(member)}".encode()), (b"cookie", cookie.encode())]

    for role, expected in ((Role.RESEARCHER, True), (Role.REVIEWER, False)):
        for header in await sync_to_async(headers_of)(role):
            assert await is_researcher(scope_with(header)) == expected, (role, header[0])
    for header in ((b"authorization", b"Bearer rt_made-up"), (b"cookie", b"sessionid=made-up"), (b"accept", b"*/*")):
        assert not await is_researcher(scope_with(header))


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
