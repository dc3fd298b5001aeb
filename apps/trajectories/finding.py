"""Search inside one run: which steps say something, and the words around it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from django.db import connection

from apps.trajectories.models import Trajectory
from apps.trajectories.rendering.text import legible

MIN_CHARS = 2
MAX_FOUND = 500
AROUND = 60


class Found(NamedTuple):
    """A step that says it: `step` is the index of where the words are shown, `excerpt` what stands around them."""

    step: int
    excerpt: str


# Steps are stored as the JSON text that was written, so the words are searched as JSON spells them. Results of tools stand in the
# context of the step after theirs; `"role":"tool"` with bare quotes cannot occur inside a JSON string.
_SQL = """
SELECT index, where_found, substring(body FROM greatest(1, at - %(around)s) FOR %(length)s), is_result FROM (
    SELECT index, 'message' AS where_found, message::text AS body,
           position(lower(%(needle)s) IN lower(message::text)) AS at, false AS is_result
    FROM trajectories_step WHERE trajectory_id = %(trajectory)s AND message::text ILIKE %(pattern)s
    UNION ALL
    SELECT index, 'context', context::text, position(lower(%(needle)s) IN lower(context::text)),
           index > 0 AND context::text ~ '"role": ?"tool"'
    FROM trajectories_step WHERE trajectory_id = %(trajectory)s AND context::text ILIKE %(pattern)s
) AS found WHERE at > 0 ORDER BY index - is_result::int LIMIT %(limit)s
"""


def find_in(trajectory: Trajectory, words: str) -> list[Found]:
    """The steps of a run that say `words`, upper and lower case alike, in order; each once."""
    words = words.strip()
    if len(words) < MIN_CHARS:
        return []
    needle = json.dumps(words, ensure_ascii=True)[1:-1]
    pattern = "%" + needle.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    with connection.cursor() as cursor:
        cursor.execute(
            _SQL,
            {
                "trajectory": trajectory.pk,
                "needle": needle,
                "pattern": pattern,
                "around": AROUND,
                "length": AROUND * 2 + len(needle),
                "limit": MAX_FOUND,
            },
        )
        rows = cursor.fetchall()
    found: dict[int, Found] = {}
    for index, _, around, is_result in rows:
        shown = index - 1 if is_result else index
        found.setdefault(shown, Found(shown, _readable(around, needle)))
    for index in _in_closing(trajectory, words):
        found.setdefault(index, Found(index, words))
    return list(found.values())


def _in_closing(trajectory: Trajectory, words: str) -> list[int]:
    closing: Any = trajectory.closing
    if not closing or trajectory.step_count == 0:
        return []
    return [trajectory.step_count - 1] if words.lower() in json.dumps(closing, ensure_ascii=False).lower() else []


def _readable(around: str, needle: str) -> str:
    """A stretch of JSON text as words: escapes are read, the halves of escapes at its ends are dropped."""
    at = around.lower().find(needle.lower())
    before, after = around[max(0, at - AROUND) : at], around[at:]
    words = _unescaped(before.partition(" ")[2] if len(before) >= AROUND else before) + _unescaped(after)
    return " ".join(legible(words).split())


def _unescaped(text: str) -> str:
    for cut in range(7):  # an escape is at most six characters long
        try:
            return str(
                json.loads(
                    f'"{text[: len(text) - cut].replace(chr(92) + chr(34), chr(39)).replace(chr(34), chr(39))}"',
                    strict=False,
                )
            )
        except ValueError:
            continue
    return text
