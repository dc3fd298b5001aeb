"""Uploading files and rows, and downloading frozen rows, over an unreliable network."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from retrace import Client, JobFailed, Progress, RetraceError, ServerUnreachable
from retrace.models.datasets import Version

from apps.accounts.models import Workspace
from apps.datasets.models import Version as StoredVersion
from apps.trajectories.models import ImportBatch
from tests import factories
from tests.client.network import Network, answer_lost, cut_after, refused
from tests.client.rows import pairs
from tests.workers.frozen_versions import freeze


def chats(count: int) -> list[dict[str, Any]]:
    def message(role: str, words: str) -> dict[str, str]:
        return {"role": role, "content": words}

    return [
        {
            "prompt": [message("user", f"Find order {number}.")],
            "chosen": [message("assistant", f"It is on shelf {number}.")],
            "rejected": [message("assistant", "I don't know.")],
            "tools": "[]",
            "id": f"row-{number}",
        }
        for number in range(count)
    ]


@pytest.fixture
def version(client: Client, workspace: Workspace) -> Version:
    rows = chats(2000)
    made = freeze({"train": rows[:1900], "validation": rows[1900:], "test": []}, of=workspace)
    return client.versions.read(str(made.dataset_id), made.number)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_is_imported_with_progress(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl.gz"
    file.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in pairs(3)).encode()))
    heard: list[Progress] = []
    batch = client.import_(file, progress=heard.append)
    size = file.stat().st_size
    assert (batch.file, batch.size, heard[-1]) == ("runs.jsonl.gz", size, (size, size, "bytes"))
    done = client.wait(batch, timeout=60, progress=heard.append)
    assert (done.state, done.trajectories, done.tasks, done.rejected) == ("done", 6, 3, 0)
    assert {it.policy for it in client.trajectories.list(batch=batch.id)} == {"good-agent", "bad-agent"}
    assert client.import_(file).id == batch.id  # the same file is the same import


def test_rows_of_a_generator_are_imported_and_leave_no_file(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    batch = client.wait(client.import_(iter(pairs(2)), filename="mine.jsonl"), timeout=60)
    assert (batch.file, batch.trajectories) == ("mine.jsonl", 4)
    assert list(tmp_path.iterdir()) == []


def test_an_upload_whose_answer_was_lost_is_sent_again_and_counted_once(far_client: Client, network: Network) -> None:
    network.fail = [answer_lost, refused(502)]
    batch = far_client.wait(far_client.import_(pairs(2)), timeout=60)
    assert (batch.state, batch.trajectories) == ("done", 4)
    assert ImportBatch.objects.count() == 1
    assert len({key for key in network.idempotency_keys() if key}) == 1


def test_a_trajectory_comes_back_with_all_its_characters(client: Client) -> None:
    row = pairs(1)[0]
    words = "half \ud83d a pair, \u2028 a line, 😀"
    row["steps"][0]["message"]["content"] = words
    batch = client.wait(client.import_([row]), timeout=60)
    [trajectory] = client.trajectories.list(batch=batch.id)
    assert client.trajectories.read(trajectory.id)["steps"][0]["message"]["content"] == words


def test_a_file_that_is_not_there_is_named(client: Client, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.jsonl"):
        client.import_(tmp_path / "nothing.jsonl")


def test_an_import_that_fails_says_why(client: Client) -> None:
    batch = client.import_([{"what": "is this?"}])
    with pytest.raises(JobFailed) as failure:
        client.wait(batch, timeout=60)
    assert (failure.value.job.state, str(failure.value)) == ("failed", failure.value.job.error)  # type: ignore[attr-defined]
    assert client.wait(batch, check=False).state == "failed"


def test_a_split_is_exported_as_it_was_frozen(client: Client, version: Version, tmp_path: Path) -> None:
    heard: list[Progress] = []
    target, size = tmp_path / "rows" / "train.jsonl", version.files["jsonl"]["train"].bytes
    assert client.export(version, "train", to=target, progress=heard.append) == target
    assert (sha256(target), heard[-1]) == (version.files["jsonl"]["train"].sha256, (size, size, "bytes"))
    assert len(target.read_text().splitlines()) == 1900
    assert os.listdir(tmp_path / "rows") == ["train.jsonl"]


def test_an_empty_split_is_an_empty_file(client: Client, version: Version, tmp_path: Path) -> None:
    assert client.export(version, "test", to=tmp_path / "test.jsonl").read_bytes() == b""


def test_a_broken_download_goes_on_where_it_broke(
    far_client: Client, network: Network, version: Version, tmp_path: Path
) -> None:
    network.fail = [cut_after(10_000), refused(503), cut_after(20_000), cut_after(0)]
    target = far_client.export(version, "train", to=tmp_path / "train.jsonl")
    assert sha256(target) == version.files["jsonl"]["train"].sha256
    ranges = [headers.get("range") for _, path, headers in network.seen if "/rows" in path]
    assert ranges == [None, "bytes=10000-", "bytes=10000-", "bytes=30000-", "bytes=30000-"]


def test_a_later_call_goes_on_with_what_an_earlier_one_left(
    far_client: Client, network: Network, version: Version, tmp_path: Path
) -> None:
    target = tmp_path / "train.jsonl"
    network.fail = [cut_after(10_000), *[answer_lost] * 6]
    with pytest.raises(ServerUnreachable):
        far_client.export(version, "train", to=target)
    [left] = tmp_path.iterdir()  # not under the requested name, since it's incomplete
    assert (left.stat().st_size, left.suffix, target.exists()) == (10_000, ".part", False)
    network.fail, network.seen = [], []
    far_client.export(version, "train", to=target)
    assert [headers["range"] for _, _, headers in network.seen] == ["bytes=10000-"]
    assert sha256(target) == version.files["jsonl"]["train"].sha256
    assert list(tmp_path.iterdir()) == [target]


def test_rows_that_are_not_those_of_the_version_are_refused(client: Client, version: Version, tmp_path: Path) -> None:
    target = tmp_path / "train.jsonl"
    file = version.files["jsonl"]["train"]
    (tmp_path / f".train.jsonl.{file.sha256[:16]}.part").write_bytes(b"x" * file.bytes)
    with pytest.raises(RetraceError, match=f"the server says {file.sha256}. Export it again"):
        client.export(version, "train", to=target)
    assert list(tmp_path.iterdir()) == []
    assert sha256(client.export(version, "train", to=target)) == file.sha256


def test_a_version_that_is_not_frozen_has_no_rows(client: Client, workspace: Workspace, tmp_path: Path) -> None:
    made = factories.dataset_version(of=workspace, state="freezing", frozen_at=None, content_hash="", row_counts={})
    version = client.versions.read(str(made.dataset_id), made.number)
    with pytest.raises(RetraceError, match=r"Version 1 is still being frozen. Wait until it is"):
        client.export(version, to=tmp_path / "train.jsonl")
    began = time.monotonic()
    with pytest.raises(RetraceError, match=r"wasn't over after 0.4 seconds"):
        client.wait(version, timeout=0.4)
    assert time.monotonic() - began >= 0.4


def test_a_stored_file_that_is_damaged_is_noticed(client: Client, version: Version, tmp_path: Path) -> None:
    name = StoredVersion.objects.get(pk=version.id).files["jsonl"]["train"]["name"]
    with default_storage.open(name) as file:
        content = file.read()
    default_storage.delete(name)
    default_storage.save(name, ContentFile(content.replace(b"shelf 7.", b"shelf 8.")))
    with pytest.raises(RetraceError, match="a proxy changes what it passes on, or the server's file is damaged"):
        client.export(version, "train", to=tmp_path / "train.jsonl")
