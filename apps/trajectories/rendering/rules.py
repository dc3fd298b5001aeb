"""The environment rules that a step broke, in words."""

from __future__ import annotations

from typing import Any

from apps.trajectories.rendering.text import one_line

MAX_VIOLATIONS = 10


def broken_rules(info: Any) -> list[str]:
    """From {"violations": [{"rule": "permanent_delete", "hard": true}]}: ["permanent delete (refused)"]. Accepts any value, as records can hold any."""
    violations = info.get("violations") if isinstance(info, dict) else None
    records = [record for record in violations if isinstance(record, dict)] if isinstance(violations, list) else []
    return [
        one_line(str(record["rule"]).replace("_", " "), 80) + (" (refused)" if record.get("hard") is True else "")
        for record in records[:MAX_VIOLATIONS]
        if isinstance(record.get("rule"), str)
    ]
