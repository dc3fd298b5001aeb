"""Which rows may be locked, and how."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCKS = re.compile(r"\b(Workspace|TrafficSplit)\.objects\.select_for_update\((.*?)\)")


def test_what_most_rows_refer_to_is_locked_without_its_key():
    """A lock of the key holds up whoever stores a row that refers to it, until it is stored: two such locks are a deadlock."""
    found = [
        (path.name, match[2])
        for folder in ("apps", "workers")
        for path in (ROOT / folder).rglob("*.py")
        for match in LOCKS.finditer(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 5
    assert [name for name, given in found if "no_key=True" not in given] == []
