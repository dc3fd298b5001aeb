"""The limit in front of Django: what may be sent where, by its declared and by its true length."""

import pytest

from apps.common import uploads
from apps.common.uploads import FORM_BYTES, SMALL_BYTES, LimitUploads


class Exchange:
    """One request in blocks, and what was answered."""

    def __init__(self, path: str, blocks: list[bytes], declared: int | None = None) -> None:
        headers = [] if declared is None else [(b"content-length", str(declared).encode())]
        self.scope = {"type": "http", "path": path, "headers": headers}
        self.blocks = list(blocks)
        self.answered: list[dict] = []
        self.taken = 0

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

    async def run(self) -> int:
        await LimitUploads(self.inner)(self.scope, self.receive, self.send)
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
