"""Search inside one trajectory: the matching steps, with excerpts."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

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


# Steps are stored as JSON text, so the JSON-encoded words are searched, without the keys and roles of the messages themselves. Tool results are
# in the context of the following step. Bare quotes, as in `"role":"tool"`, can't occur inside a JSON string.
_SQL = r"""
SELECT DISTINCT ON (shown) shown, substring(body FROM greatest(1, at - %(around)s) FOR %(length)s), needle FROM (
    SELECT shown, body, needle, position(lower(needle) IN lower(body)) AS at FROM (
        SELECT shown, CASE WHEN %(names)s = '' THEN body ELSE regexp_replace(body, %(names)s, '', 'g') END AS body FROM (
            SELECT index AS shown, message::text AS body FROM trajectories_step WHERE trajectory_id = %(trajectory)s
            UNION ALL
            SELECT index - (index > 0 AND context::text ~ '"role": ?"tool"')::int, context::text
            FROM trajectories_step WHERE trajectory_id = %(trajectory)s
            UNION ALL
            SELECT step_count - 1, closing::text FROM trajectories_trajectory WHERE id = %(trajectory)s AND step_count > 0
        ) AS stored WHERE body ILIKE ANY(%(patterns)s::text[])
    ) AS matching, unnest(%(needles)s::text[]) AS needle
) AS found WHERE at > 0 ORDER BY shown LIMIT %(limit)s
"""
_ROLES_AND_TYPES = ["system", "developer", "user", "assistant", "tool", "function", "text"]
_KEYS = [
    "role",
    "type",
    "content",
    "reasoning_content",
    "tool_calls",
    "tool_call_id",
    "id",
    "function",
    "name",
    "arguments",
]
_NAMES = rf'"(role|type)": ?"({"|".join(_ROLES_AND_TYPES)})"|"({"|".join(_KEYS)})": ?'


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
                "names": _NAMES if _is_in_names(query) else "",  # removing them takes four times as long as the search
                "around": AROUND,
                "length": AROUND * 2 + max(map(len, needles)),
                "limit": MAX_MATCHES,
            },
        )
        return [Match(shown, _readable(around, needle)) for shown, around, needle in cursor.fetchall()]


def _is_in_names(query: str) -> bool:
    return any(query.lower() in name for name in (*_ROLES_AND_TYPES, *_KEYS))


def _pattern(needle: str) -> str:
    for sign in ("\\", "%", "_"):
        needle = needle.replace(sign, f"\\{sign}")
    return f"%{needle}%"


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
