"""Row locks."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCKS = re.compile(r"\b(Workspace|TrafficSplit)\.objects\.select_for_update\((.*?)\)")


def test_what_most_rows_refer_to_is_locked_without_its_key():
    """FOR UPDATE on a key blocks inserts of rows that refer to it; two such locks can deadlock."""
    locks = [
        (path.name, match[2])
        for folder in ("apps", "workers")
        for path in (ROOT / folder).rglob("*.py")
        for match in LOCKS.finditer(path.read_text(encoding="utf-8"))
    ]
    assert len(locks) > 5
    assert [name for name, arguments in locks if "no_key=True" not in arguments] == []
