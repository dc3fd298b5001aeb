"""Pushing frozen versions to a hub."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils.timezone import now
from retrace import AsyncClient, Client, RetraceError
from retrace.cli.main import main
from retrace.models.datasets import Version

from apps.accounts.models import Workspace
from apps.common.ids import new_id
from apps.datasets.card import make_card
from apps.datasets.figures import Figures
from tests import factories
from tests.client.hub import TOKEN, Hub
from tests.live import LiveStack


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with Hub() as hub:
        yield hub


def frozen(client: Client, workspace: Workspace, **rows: int) -> Version:
    """A version with a card and the files that are pushed."""
    counts = {"train": 0, "validation": 0, "test": 0, **rows}
    files = {split: stored(split, count) for split, count in counts.items()}
    made = factories.dataset_version(
        of=workspace,
        files={"parquet": files, "jsonl": files},
        row_counts=counts,
        content_hash=hashlib.sha256(str(sorted(rows.items())).encode()).hexdigest(),
        recipe={"queues": []},
        state="freezing",
        frozen_at=None,
    )
    made.card = make_card(made, Figures(rows=Counter(rows)))
    made.state, made.frozen_at = "frozen", now()
    made.save()
    return client.versions.read(str(made.dataset_id), made.number)


def stored(split: str, count: int) -> dict[str, Any]:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"tools": ["[]"] * count}), buffer)
    data = buffer.getvalue()
    name = default_storage.save(f"datasets/{new_id()}/v1/{split}.parquet", ContentFile(data))
    return {"name": name, "rows": count, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_a_version_is_one_commit_whose_files_are_the_frozen_ones(
    client: Client, workspace: Workspace, hub: Hub
) -> None:
    version = frozen(client, workspace, train=3, validation=1, test=0)
    pushed = client.push(version, "lab/orders", endpoint=hub.url)
    made = hub.repositories["lab/orders"]
    assert (made.is_private, made.commits) == (True, [f"Version 1 ({version.content_hash})"])
    assert (pushed.url, pushed.commit) == (f"{hub.url}/datasets/lab/orders/commit/{made.head}", made.head)
    assert made.tags == {pushed.tag: made.head} == {f"v1-{version.content_hash[:12]}": made.head}
    assert set(made.files) == {"README.md", "retrace.json", "train.parquet", "validation.parquet"}
    manifest = json.loads(made.files["retrace.json"])
    assert (manifest["id"], manifest["content_hash"]) == (version.id, version.content_hash)
    for split, count in (("train", 3), ("validation", 1)):
        data = made.files[f"{split}.parquet"]
        assert hashlib.sha256(data).hexdigest() == manifest["files"]["parquet"][split]["sha256"]
        assert pyarrow.parquet.read_table(io.BytesIO(data)).num_rows == count
    assert version.content_hash in made.files["README.md"].decode()


def test_pushed_again_it_is_the_same_commit_and_another_version_replaces_its_files(
    client: Client, workspace: Workspace, hub: Hub
) -> None:
    first = frozen(client, workspace, train=2, validation=1)
    pushed = client.push(first, "lab/orders", endpoint=hub.url, private=False)
    assert client.push(first, "lab/orders", endpoint=hub.url).commit == pushed.commit
    client.push(frozen(client, workspace, train=1), "lab/orders", endpoint=hub.url)
    made = hub.repositories["lab/orders"]
    assert (made.is_private, len(made.commits), len(made.tags)) == (False, 2, 2)
    assert set(made.files) == {"README.md", "retrace.json", "train.parquet"}


def test_other_files_of_a_repository_stay(client: Client, workspace: Workspace, hub: Hub) -> None:
    client.push(frozen(client, workspace, train=2, validation=1), "lab/orders", endpoint=hub.url)
    others = {"other.parquet": b"1", "data/train.parquet": b"2", "notes.md": b"3"}
    hub.repositories["lab/orders"].files |= others
    client.push(frozen(client, workspace, train=1), "lab/orders", endpoint=hub.url)
    assert set(hub.repositories["lab/orders"].files) == {"README.md", "retrace.json", "train.parquet", *others}


def test_the_same_in_an_event_loop(client: Client, workspace: Workspace, hub: Hub, token: str) -> None:
    version = frozen(client, workspace, train=1)

    async def push() -> str:
        async with AsyncClient(client.url, token) as far:
            return (await far.push(version, "lab/orders", endpoint=hub.url)).commit

    assert asyncio.run(push()) == hub.repositories["lab/orders"].head


def test_a_hub_that_refuses_is_told_in_words(
    client: Client, workspace: Workspace, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = frozen(client, workspace, train=1)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(RetraceError, match=r"didn't take lab/orders: .*401.*Log in with `hf auth login`"):
        client.push(version, "lab/orders", endpoint=hub.url)
    with pytest.raises(RetraceError, match="didn't take not a name"):
        client.push(version, "not a name", endpoint=hub.url)
    assert hub.repositories == {}


def test_what_is_not_frozen_is_not_pushed(client: Client, workspace: Workspace, hub: Hub) -> None:
    made = factories.dataset_version(of=workspace, state="freezing", frozen_at=None)
    with pytest.raises(RetraceError):
        client.push(client.versions.read(str(made.dataset_id), made.number), "lab/orders", endpoint=hub.url)
    assert hub.repositories == {}


def test_the_command_pushes(
    live_stack: LiveStack,
    client: Client,
    workspace: Workspace,
    token: str,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)  # HF_ENDPOINT, which is read on import
    version = frozen(client, workspace, train=1)
    name = client.datasets.read(version.dataset).name
    words = ["push", f"{name}/1", "--to", "lab/orders", "--public", "--url", live_stack.url, "--token", token]
    assert main(words) == 0
    made = hub.repositories["lab/orders"]
    assert capsys.readouterr().out == f"{hub.url}/datasets/lab/orders/commit/{made.head} as {next(iter(made.tags))}\n"
    assert not made.is_private
