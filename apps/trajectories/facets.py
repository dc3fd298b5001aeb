"""How the trajectories that filters find are spread over environments, policies, outcomes, and so on.

Counted over the newest SAMPLE matches, so that it takes as long in a large workspace as in a small one; the page says so where there are more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from django.db import OperationalError, connection, transaction

from apps.accounts.models import Membership
from apps.trajectories import annotators
from apps.trajectories.filters import NO_POLICY, Filters
from apps.trajectories.models import TrajectoryQuerySet

SAMPLE = 2_000
SHOWN = 8
"""Values of a facet, the most frequent first."""
PATIENCE_MS = 2_000
LENGTHS = ((0, 5), (6, 10), (11, 20), (21, 50), (51, None))
OUTCOME_WORDS = {True: ("success", "Success"), False: ("failure", "Failure"), None: ("none", "No outcome")}


class Value(NamedTuple):
    """One value of a facet: choosing it narrows the list."""

    words: str
    runs: int
    query: str
    """Of the list with this value as a filter beside those that there are."""


class Facet(NamedTuple):
    """One way in which trajectories differ."""

    name: str
    values: list[Value]
    more: int
    """Values that aren't shown."""


class Facets(NamedTuple):
    """All facets of a list."""

    facets: list[Facet]
    counted: int
    is_sample: bool
    """There are more matches than were counted."""


class TooSlow(Exception):
    """Finding the newest matches took longer than a page may."""


def facets_of(member: Membership, found: TrajectoryQuerySet, filters: Filters) -> Facets:
    """The facets of what `filters` found. Raises TooSlow."""
    columns = (
        "pk",
        "task__environment",
        "policy",
        "policy__name",
        "success",
        "error_count",
        "step_count",
        "tags",
        "called",
    )
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(PATIENCE_MS)])
            rows = list(found.order_by("-pk").values_list(*columns)[: SAMPLE + 1])
            judged = annotators.counts(member, [row[0] for row in rows[:SAMPLE]])
            cursor.execute("SET LOCAL statement_timeout TO DEFAULT")  # a transaction around this one goes on without it
    except OperationalError as problem:
        raise TooSlow from problem
    counted = rows[:SAMPLE]
    environments, policies, outcomes, errors, lengths, tags, tools = (Counter[Any]() for _ in range(7))
    names: dict[Any, str] = {None: "Not known"}
    for _, environment, policy, name, success, error_count, steps, tagged, called in counted:
        environments[environment] += 1
        policies[policy] += 1
        names.setdefault(policy, name)
        outcomes[success] += 1
        errors["yes" if error_count else "no"] += 1
        lengths[next(each for each in LENGTHS if each[1] is None or steps <= each[1])] += 1
        tags.update(tagged)
        tools.update(called)

    def facet(name: str, counts: Iterator[tuple[Mapping[str, str], str, int]]) -> Facet:
        """There may be hundreds of thousands of tags, so addresses are made only of those that are shown."""
        values = [Value(words, runs, replace(filters, **change).query) for change, words, runs in islice(counts, SHOWN)]
        return Facet(name, values, sum(1 for _ in counts))

    every = [
        facet("Environment", (({"environment": name}, name, n) for name, n in environments.most_common() if name)),
        facet(
            "Policy",
            (({"policy": str(policy or NO_POLICY)}, names[policy], n) for policy, n in policies.most_common()),
        ),
        facet(
            "Outcome",
            (({"outcome": OUTCOME_WORDS[each][0]}, OUTCOME_WORDS[each][1], n) for each, n in outcomes.most_common()),
        ),
        facet("Tool", (({"tool": name}, name, n) for name, n in tools.most_common())),
        facet(
            "Errors",
            (
                ({"errors": each}, {"yes": "With errors", "no": "Without errors"}[each], n)
                for each, n in errors.most_common()
            ),
        ),
        facet("Steps", (_length(each, lengths[each]) for each in LENGTHS if lengths[each])),
        facet("Tag", (({"tag": name}, name, n) for name, n in tags.most_common())),
        facet("Judged by", (({"annotator": str(each.id)}, each.name, each.runs) for each in judged)),
    ]
    return Facets([each for each in every if each.values], len(counted), len(rows) > SAMPLE)


def _length(bounds: tuple[int, int | None], count: int) -> tuple[Mapping[str, str], str, int]:
    low, high = bounds
    words = f"{low} or more" if high is None else f"{low} to {high}"
    return {"min_steps": str(low or ""), "max_steps": str(high or "")}, words, count
