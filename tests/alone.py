"""Finds the files that may contain tests that run alone, without importing them, since importing all test files takes long."""

import re
from functools import cache
from pathlib import Path

import pytest

MARKS = {"browser", "stack", "gpu"}
SIGNS = re.compile(rf"live_stack|live_programs|mark\.(?:{'|'.join(MARKS)})")


@cache
def may_have(path: Path) -> bool:
    """Whether a test file, or the conftest.py beside it, mentions the live stack or one of the marks."""
    return any(file.exists() and SIGNS.search(file.read_text("utf-8")) for file in (path, path.parent / "conftest.py"))


def check(item: pytest.Item) -> None:
    """Raises UsageError if a test that runs alone wouldn't be found."""
    if any(item.get_closest_marker(mark) for mark in MARKS) and not may_have(item.path):
        raise pytest.UsageError(f"{item.nodeid} runs by itself, but its file and its folder's conftest.py don't tell.")
