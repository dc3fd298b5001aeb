"""Helpers that read rows in tests of formats."""

from typing import Any

from apps.ingest import formats
from apps.ingest.records import BadRow, TrajectoryRecord


def read(name: str, row: Any, filename: str = "file.jsonl") -> TrajectoryRecord:
    """The single trajectory of a row; checks that the format with this name, and no other, recognizes it."""
    assert (format := formats.format_of(row))
    assert format.name == name
    (record,) = formats.named(name).read(row, filename)
    assert [step.message["role"] for step in record.steps] == ["assistant"] * len(record.steps)
    record.content_hash()
    return record


def refusal(name: str, row: Any) -> tuple[str, str]:
    """Why the format with this name refuses a row, and what it expected."""
    try:
        list(formats.named(name).read(row, "file.jsonl"))
    except BadRow as refused:
        return refused.reason, refused.expected
    raise AssertionError(f"{name} takes {row!r}")
