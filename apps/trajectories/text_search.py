"""Search inside one trajectory: the matching steps, with excerpts."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from django.db import connection

from apps.common.query_time_limit import query_time_limit
from apps.trajectories.models import Trajectory
from apps.trajectories.rendering.text import legible

MIN_CHARS = 2
MAX_MATCHES = 500
TIME_LIMIT_MS = 5_000
"""Some words nearly match at every position, which makes the search slow, and a trajectory may have 64 MB."""
AROUND = 100
"""Characters read on both sides of a match."""

BEFORE = 24
"""Characters shown before a match: few, so that a narrow list shows the match itself."""

_END_OF_STRING = re.compile(r'(?<!\\)"')


class Match(NamedTuple):
    """A matching step: `step` is the index at which the match is displayed, `excerpt` the text around it."""

    step: int
    excerpt: str


# Steps are stored as JSON text, so the JSON-encoded words are searched. Tool results are in the
# context of the following step; `"role":"tool"` with bare quotes can't occur inside a JSON string.
_SQL = """
SELECT index - is_result::int AS shown, substring(body FROM greatest(1, at - %(around)s) FOR %(length)s), needle FROM (
    SELECT index, body, is_result, needle, position(lower(needle) IN lower(body)) AS at FROM (
        SELECT index, message::text AS body, false AS is_result
        FROM trajectories_step WHERE trajectory_id = %(trajectory)s AND message::text ILIKE ANY(%(patterns)s::text[])
        UNION ALL
        SELECT index, context::text, index > 0 AND context::text ~ '"role": ?"tool"'
        FROM trajectories_step WHERE trajectory_id = %(trajectory)s AND context::text ILIKE ANY(%(patterns)s::text[])
    ) AS matching, unnest(%(needles)s::text[]) AS needle
) AS found WHERE at > 0 ORDER BY shown LIMIT %(limit)s
"""


def find_in(trajectory: Trajectory, query: str) -> list[Match]:
    """The steps of a trajectory that contain `query`, ignoring case, in order, without duplicates. Raises TooSlow."""
    query = query.strip()
    if len(query) < MIN_CHARS:
        return []
    # Non-ASCII letters are stored as themselves or as \u escapes, depending on the writer of the record.
    needles = sorted({json.dumps(query, ensure_ascii=escaping)[1:-1] for escaping in (True, False)})
    with query_time_limit(TIME_LIMIT_MS), connection.cursor() as cursor:
        cursor.execute(
            _SQL,
            {
                "trajectory": trajectory.pk,
                "needles": needles,
                "patterns": [_pattern(needle) for needle in needles],
                "around": AROUND,
                "length": AROUND * 2 + max(map(len, needles)),
                "limit": MAX_MATCHES,
            },
        )
        rows = cursor.fetchall()
    matches: dict[int, Match] = {}
    for shown, around, needle in rows:
        matches.setdefault(shown, Match(shown, _readable(around, needle)))
    if _is_in(trajectory.closing, query) and trajectory.step_count:
        last = trajectory.step_count - 1
        matches.setdefault(last, Match(last, query))
    return list(matches.values())


def _pattern(needle: str) -> str:
    for sign in ("\\", "%", "_"):
        needle = needle.replace(sign, f"\\{sign}")
    return f"%{needle}%"


def _is_in(closing: Any, query: str) -> bool:
    return bool(closing) and query.lower() in json.dumps(closing, ensure_ascii=False).lower()


def _readable(around: str, needle: str) -> str:
    """An excerpt of JSON text as plain text: only the string with the match, unescaped."""
    at = max(0, around.lower().find(needle.lower()))
    before = _END_OF_STRING.split(around[:at])[-1]
    after = _END_OF_STRING.split(around[at + len(needle) :])[0]
    if len(before) > BEFORE:
        before = "…" + before[-BEFORE:].partition(" ")[2]
    excerpt = _unescaped(before) + _unescaped(around[at : at + len(needle)]) + _unescaped(after)
    return " ".join(legible(excerpt).split())


def _unescaped(text: str) -> str:
    """Unescape a part of a JSON string; a partial escape at its end is dropped."""
    for cut in range(7):  # an escape is at most six characters long
        try:
            return str(json.loads(f'"{text[: len(text) - cut]}"', strict=False))
        except ValueError:
            continue
    return text
