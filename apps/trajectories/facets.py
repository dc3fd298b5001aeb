"""Facets: how the filtered trajectories are distributed over environments, policies, outcomes, and so on.

Counted over the newest SAMPLE matches, so that the time doesn't depend on the workspace's size; the page says if there are more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from apps.accounts.models import Membership
from apps.common.query_time_limit import query_time_limit
from apps.trajectories import annotators
from apps.trajectories.filters import NO_POLICY, Filters
from apps.trajectories.models import TrajectoryQuerySet

SAMPLE = 2_000
SHOWN = 8
"""Values shown per facet, the most frequent first."""
TIME_LIMIT_MS = 2_000
LENGTHS = ((0, 5), (6, 10), (11, 20), (21, 50), (51, None))
NAMES = {
    "environment": "Environment",
    "policy": "Policy",
    "outcome": "Outcome",
    "tool": "Tool",
    "errors": "Errors",
    "steps": "Steps",
    "tag": "Tag",
    "annotator": "Judged by",
}
"""Titles of the facets, in the order of the page, by the column that is counted."""
MANY_OF_EACH = ("tool", "tag", "annotator")
"""Facets of which a trajectory may have several values, while a filter has one."""
LABELS = {
    ("outcome", "success"): "Success",
    ("outcome", "failure"): "Failure",
    ("outcome", "none"): "No outcome",
    ("errors", "yes"): "With errors",
    ("errors", "no"): "Without errors",
    ("policy", NO_POLICY): "Not known",
}


class Value(NamedTuple):
    """One value of a facet: selecting it narrows the list."""

    label: str
    trajectories: int
    query: str
    """Query string of the list with this value as an additional filter. Empty if the filter has another value, which a trajectory may have, too."""


class Facet(NamedTuple):
    """One dimension of the trajectories."""

    name: str
    values: list[Value]
    more: int
    """Number of values that aren't shown."""


class Facets(NamedTuple):
    """All facets of a list."""

    facets: list[Facet]
    counted: int
    is_sample: bool
    """There are more matches than were counted."""


def facets_of(member: Membership, matches: TrajectoryQuerySet, filters: Filters) -> Facets:
    """The facets of the trajectories found with `filters`. Raises TooSlow."""
    with query_time_limit(TIME_LIMIT_MS), connection.cursor() as cursor:
        newest = list(matches.order_by("-pk").values_list("pk", flat=True)[: SAMPLE + 1])
        counted = newest[:SAMPLE]
        cursor.execute(_COUNT, {"runs": counted, "lengths": [low for low, _ in LENGTHS[1:]], "shown": SHOWN})
        counts = [_Count(*row) for row in cursor.fetchall()]
        counts += _judged(member, counted)
    facets = [_facet(by, [count for count in counts if count.by == by], filters) for by in NAMES]
    return Facets([facet for facet in facets if facet.values], len(counted), len(newest) > SAMPLE)


class _Count(NamedTuple):
    """Number of trajectories with one value."""

    by: str
    value: str
    label: str
    trajectories: int
    values: int
    """Number of values, including those that aren't shown."""


# Counted in the database: transferring 2,000 rows to Python takes five times as long. Of equally frequent values, the one seen last comes first.
_COUNT = """
WITH counted AS MATERIALIZED (
    SELECT task_id, policy_id, success, error_count, step_count, tags, called, row_number() OVER (ORDER BY id DESC) AS place
    FROM trajectories_trajectory WHERE id = ANY(%(runs)s)
), each(by, value, words, place) AS (
    SELECT 'environment', k.environment, k.environment, c.place
    FROM counted c JOIN trajectories_task k ON k.id = c.task_id WHERE k.environment <> ''
    UNION ALL
    SELECT 'policy', coalesce(c.policy_id::text, 'none'), coalesce(p.name, ''), c.place
    FROM counted c LEFT JOIN policies_policy p ON p.id = c.policy_id
    UNION ALL SELECT 'outcome', CASE WHEN success THEN 'success' WHEN NOT success THEN 'failure' ELSE 'none' END, '', place FROM counted
    UNION ALL SELECT 'errors', CASE WHEN error_count > 0 THEN 'yes' ELSE 'no' END, '', place FROM counted
    UNION ALL SELECT 'steps', width_bucket(step_count, %(lengths)s::int[])::text, '', place FROM counted
    UNION ALL SELECT 'tool', name, name, place FROM counted, unnest(called) name
    UNION ALL SELECT 'tag', name, name, place FROM counted, unnest(tags) name
), ranked AS (
    SELECT by, value, words, count(DISTINCT place) AS runs, count(*) OVER (PARTITION BY by) AS values,
           row_number() OVER (PARTITION BY by ORDER BY count(DISTINCT place) DESC, min(place), value) AS rank
    FROM each GROUP BY by, value, words
)
SELECT by, value, words, runs, values FROM ranked WHERE rank <= %(shown)s ORDER BY by, rank
"""


def _judged(member: Membership, counted: Sequence[UUID]) -> Iterator[_Count]:
    judged = annotators.counts(member, counted)
    for annotator in judged[:SHOWN]:
        yield _Count("annotator", str(annotator.id), annotator.name, annotator.trajectories, len(judged))


def _facet(by: str, counts: list[_Count], filters: Filters) -> Facet:
    if by == "steps":
        values = [_length(count, filters) for count in sorted(counts, key=lambda count: int(count.value))]
    else:
        values = [
            Value(LABELS.get((by, count.value), count.label), count.trajectories, _query_with(by, count.value, filters))
            for count in counts
        ]
    return Facet(NAMES[by], values, counts[0].values - len(counts) if counts else 0)


def _query_with(by: str, value: str, filters: Filters) -> str:
    is_taken = by in MANY_OF_EACH and getattr(filters, by) not in ("", value)
    return "" if is_taken else replace(filters, **{by: value}).query


def _length(count: _Count, filters: Filters) -> Value:
    """Within the bounds of `filters`, which were applied to what was counted."""
    low, high = LENGTHS[int(count.value)]
    label = f"{low} or more" if high is None else f"{low} to {high}"
    least = max(low, int(filters.min_steps or 0))
    most = min((int(bound) for bound in (high, filters.max_steps) if bound), default="")
    bounds = {"min_steps": str(least or ""), "max_steps": str(most)}
    return Value(label, count.trajectories, replace(filters, **bounds).query)
