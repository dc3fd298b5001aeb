"""Downloads over real HTTP: whole, in ranges, compressed, and not at all if the client has the file."""

import hashlib
import time
from typing import Any

import httpx
import pytest

from apps.accounts.models import Membership
from apps.datasets import freezing
from apps.datasets.models import Version
from apps.datasets.recipe import Recipe
from tests import factories
from tests.live import LiveStack


@pytest.fixture
def member(transactional_db: None) -> Membership:
    return factories.member()


@pytest.fixture
def version(live_stack: LiveStack, member: Membership) -> Version:
    """A version frozen by the live worker."""
    queue = factories.queue(of=member.workspace)
    for strength in (1, 2, 3, -1):
        factories.preference(strength, on=factories.item(of=queue))
    dataset = freezing.create_dataset(name="shop", description="", license="", by=member)
    recipe = Recipe(queues=(str(queue.pk),), train=100, validation=0, test=0)
    made = freezing.request_version(dataset=dataset, recipe=recipe, by=member)
    for _ in range(600):
        made.refresh_from_db()
        if not made.is_active:
            break
        time.sleep(0.1)
    assert made.state == Version.State.FROZEN, made.error
    return made


@pytest.fixture
def get(live_stack: LiveStack, member: Membership, version: Version) -> Any:
    client = httpx.Client(headers={"Authorization": f"Bearer {factories.token(member)}", "Accept-Encoding": "identity"})
    address = f"{live_stack.url}/api/v1/datasets/{version.dataset_id}/versions/1/rows"

    def ask(method: str = "GET", query: str = "", **headers: str) -> httpx.Response:
        return client.request(method, address + query, headers={k.replace("_", "-"): v for k, v in headers.items()})

    yield ask
    client.close()


def test_a_download_in_every_way(get: Any, version: Version) -> None:
    """A single test, since the live stack is expensive."""
    facts = version.files["jsonl"]["train"]

    whole = get()
    assert whole.status_code == 200
    assert hashlib.sha256(whole.content).hexdigest() == facts["sha256"]
    assert whole.headers["Content-Length"] == str(facts["bytes"])
    assert whole.headers["ETag"] == f'"{facts["sha256"]}"'
    assert whole.headers["Content-Type"] == "application/jsonl"

    head = get("HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == str(facts["bytes"])

    for tag in (whole.headers["ETag"], f"W/{whole.headers['ETag']}", f'"other", {whole.headers["ETag"]}'):
        assert get(If_None_Match=tag).status_code == 304

    first, rest = get(Range="bytes=0-99"), get(Range="bytes=100-", If_Range=whole.headers["ETag"])
    assert (first.status_code, rest.status_code) == (206, 206)
    assert first.headers["Content-Range"] == f"bytes 0-99/{facts['bytes']}"
    assert first.content + rest.content == whole.content
    assert get(Range="bytes=-7").content == whole.content[-7:]
    assert get(Range="bytes=0-99", If_Range='"another file"').status_code == 200
    assert get(Range="bytes=0-1,5-6").status_code == 200

    for start in (facts["bytes"], 10 * facts["bytes"]):
        beyond = get(Range=f"bytes={start}-")
        assert beyond.status_code == 416
        assert beyond.json()["detail"].startswith("The range begins after the end of the file")
        assert beyond.headers["Content-Range"] == f"bytes */{facts['bytes']}"
    assert get(Range="bytes=7-3").status_code == 200
    assert get(Range=f"bytes={'9' * 5000}-").status_code == 200

    zipped = get(Accept_Encoding="gzip")
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert zipped.headers["ETag"] == f'"{facts["sha256"]}-gzip"'
    assert zipped.content == whole.content
    assert "Content-Length" not in get("HEAD", Accept_Encoding="gzip").headers  # unknown in advance
    assert get(If_None_Match=zipped.headers["ETag"]).status_code == 304

    parquet = get(query="?format=parquet")
    assert hashlib.sha256(parquet.content).hexdigest() == version.files["parquet"]["train"]["sha256"]
    assert "Content-Encoding" not in get(query="?format=parquet", Accept_Encoding="gzip").headers

    empty = get(query="?split=test")
    assert (empty.status_code, empty.content) == (200, b"")
