"""Reads an exported file with the reader for verl. Its base class is a stand-in that reads files with pandas, as verl's does."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pandas
import pytest
from django.core.files.storage import default_storage

from apps.accounts.models import Membership
from apps.annotation.models import Queue
from tests.datasets.rows.test_single_trajectories import freeze, inspected, rows_of
from tests.trainer.runs import ROOT

__all__ = ["inspected"]  # a fixture
pytestmark = pytest.mark.django_db


class MultiTurnSFTDataset:
    def __init__(self, file: str) -> None:
        self.messages_key, self.tools_key = "messages", "tools"
        self.file = file
        self._read_files_and_process()

    def _read_files_and_process(self) -> None:
        self.dataframe = pandas.read_parquet(self.file)
        self.messages = [list(chat) for chat in self.dataframe[self.messages_key]]
        self.tools = list(self.dataframe[self.tools_key])


@pytest.fixture
def rows_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("verl", "verl.utils", "verl.utils.dataset"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    module = ModuleType("verl.utils.dataset.multiturn_sft_dataset")
    module.MultiTurnSFTDataset = MultiTurnSFTDataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.delitem(sys.modules, "verl_rows", raising=False)
    from verl_rows import RetraceRows

    return RetraceRows


def as_read(message: dict[str, Any]) -> dict[str, Any]:
    """The message without the null keys that readers of JSON Lines add."""
    return {name: value for name, value in message.items() if value is not None}


def test_chats_and_tools_are_what_was_exported(member: Membership, inspected: Queue, rows_class: Any) -> None:
    version = freeze(member, inspected, row_type="demonstrations")
    read = rows_class(default_storage.path(version.files["parquet"]["train"]["name"]))
    exported = rows_of(version)
    assert read.messages == [[as_read(message) for message in row["messages"]] for row in exported]
    assert read.dataframe["messages"].tolist() == read.messages
    assert read.tools == [json.loads(row["tools"]) or None for row in exported]
