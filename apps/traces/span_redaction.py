"""Redacts spans and their sources with the workspace's rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from apps.redaction.redaction import MAX_CPU_SECONDS, Redaction, Rule
from contract.values import Json

OF_PROTOCOL = frozenset({"traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano", "timeUnixNano"})
ID_OR_TIME = re.compile(r"[0-9a-fA-F]{0,32}")
NUMBERS = ("intValue", "doubleValue")


def redacted_span(span: dict[str, Any], rules: Sequence[Rule], *, cpu_seconds: float) -> dict[str, Any]:
    """Redacts its name, attributes, events, links, and status. Ids and times stay, since they link spans."""
    redacted: dict[str, Any] = _redacted(span, rules, cpu_seconds)
    return redacted


def redacted_source(source: Json, rules: Sequence[Rule], *, cpu_seconds: float) -> Json:
    """Redacts a resource with its scope."""
    return _redacted(source, rules, cpu_seconds)


def _redacted(value: Json, rules: Sequence[Rule], cpu_seconds: float) -> Any:
    run = Redaction(rules, cpu_seconds=min(cpu_seconds, MAX_CPU_SECONDS))
    redacted = run.value(value, is_kept=_is_id_or_time)
    return _as_text(redacted) if run.found else redacted


def _is_id_or_time(name: str, value: Any) -> bool:
    return name in OF_PROTOCOL and (
        isinstance(value, int) or (isinstance(value, str) and bool(ID_OR_TIME.fullmatch(value)))
    )


def _as_text(value: Any) -> Any:
    """A number with a replacement becomes a string."""
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        "stringValue" if name in NUMBERS and _is_marker(item) else name: _as_text(item) for name, item in value.items()
    }


def _is_marker(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("[redacted: ")
