"""All splits in one archive, and step labels in TRL's stepwise columns."""

import asyncio
import hashlib
import io
import json
import zipfile
from collections.abc import AsyncIterator
from time import process_time
from typing import Any

import pytest
from datasets import load_dataset
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.models import Queue
from apps.datasets.files.archive import _stepwise
from tests import factories
from tests.accounts.clients import body_of
from tests.datasets.rows.test_single_trajectories import freeze, inspected  # noqa: F401  # a fixture
from tests.datasets.test_pages import signed_in

pytestmark = pytest.mark.django_db


def body(response: Any) -> bytes:
    assert response.status_code == 200, response.content
    return body_of(response)


def test_one_button_fetches_all_splits_whose_hash_is_the_versions(member: Membership, inspected: Queue) -> None:  # noqa: F811
    version = freeze(member, inspected, row_type="steps")
    address = reverse("datasets:all_splits", args=[version.dataset_id, version.number])
    made = zipfile.ZipFile(io.BytesIO(body(signed_in(member).get(address))))
    assert made.namelist() == ["train.jsonl", "validation.jsonl", "test.jsonl", "README.md"]
    sums = [f"{hashlib.sha256(made.read(name)).hexdigest()}  {name}\n" for name in made.namelist()[:3]]
    assert hashlib.sha256("".join(sums).encode()).hexdigest() == version.content_hash
    for outsider in (factories.member(Role.OWNER), factories.member(Role.REVIEWER, of=member.workspace)):
        assert signed_in(outsider).get(address).status_code == 404
    page = signed_in(member).get(reverse("datasets:version", args=[version.dataset_id, version.number]))
    words = page.content.decode().replace("&amp;", "&").replace("&quot;", '"')
    assert f'href="{address}"' in words
    assert 'format=jsonl&split={train,validation,test}" -o "#1.jsonl"' in words


def test_a_row_of_many_pieces_is_converted_in_time_proportional_to_its_length() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        messages = [{"role": "user", "content": "long " * 6_000_000}, {"role": "assistant", "content": "Done."}]
        line = json.dumps({"messages": messages, "step_labels": [1]}).encode() + b"\n"
        for start in range(0, len(line), 1024):
            yield line[start : start + 1024]

    async def converted() -> bytes:
        return b"".join([part async for part in _stepwise(pieces())])

    begun = process_time()
    assert json.loads(asyncio.run(converted()))["labels"] == [True]
    assert process_time() - begun < 5  # copying the row with each piece took minutes


def test_step_labels_come_with_the_columns_of_trl(member: Membership, inspected: Queue, tmp_path: Any) -> None:  # noqa: F811
    version = freeze(member, inspected, row_type="steps")
    address = f"/api/v1/datasets/{version.dataset_id}/versions/1/rows?format=stepwise"
    bearer = {"Authorization": f"Bearer {factories.token(member)}"}
    file = tmp_path / "train-stepwise.jsonl"
    file.write_bytes(body(Client().get(address, headers=bearer)))
    rows = load_dataset("json", data_files=str(file), split="train")
    assert set(rows.column_names) == {"prompt", "completions", "labels"}
    assert sorted(rows["labels"]) == [[True, True, False], [True, True, True, True]]  # the last label was filled in
    assert json.loads(rows[0]["completions"][0])["name"] == "look"
    other = freeze(member, inspected, row_type="demonstrations")
    refused = Client().get(f"/api/v1/datasets/{other.dataset_id}/versions/1/rows?format=stepwise", headers=bearer)
    assert (refused.status_code, "Only versions of process labels" in str(refused.json())) == (400, True)
    assert (
        Client().get(address, headers={"Authorization": f"Bearer {factories.token(factories.member())}"}).status_code
        == 404
    )
