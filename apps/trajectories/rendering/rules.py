"""The environment rules that a step broke, in words."""

from __future__ import annotations

from typing import Any

from apps.trajectories.rendering.text import one_line

MOST = 10


def broken_rules(info: Any) -> list[str]:
    """From {"violations": [{"rule": "permanent_delete", "hard": true}]}: ["permanent delete (refused)"]. Accepts any value, as records can hold any."""
    violations = info.get("violations") if isinstance(info, dict) else None
    found = [each for each in violations if isinstance(each, dict)] if isinstance(violations, list) else []
    return [
        one_line(str(each["rule"]).replace("_", " "), 80) + (" (refused)" if each.get("hard") is True else "")
        for each in found[:MOST]
        if isinstance(each.get("rule"), str)
    ]
