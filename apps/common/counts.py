"""How many rows there are, without reading them all."""

import json
from dataclasses import dataclass
from typing import Any, Self

from django.db.models import QuerySet

from apps.common import quantities


@dataclass(frozen=True)
class About:
    """A count: exact while it is small, else the planner's estimate, which says "about"."""

    number: int
    exact: bool

    def __str__(self) -> str:
        return quantities.count(self.number) if self.exact else f"about {quantities.count(self.number)}"

    def __bool__(self) -> bool:
        return self.number > 0

    def __add__(self, other: Self) -> Self:
        return type(self)(self.number + other.number, exact=self.exact and other.exact)


def about(rows: QuerySet[Any], *, cap: int = 10_000) -> About:
    """Count `rows` up to `cap`; beyond that ask PostgreSQL's planner, which knows from its statistics."""
    keys = rows.order_by().values("pk")
    found = keys[: cap + 1].count()
    if found <= cap:
        return About(found, exact=True)
    plan = json.loads(keys.explain(format="json"))
    # Statistics may lag behind; what was counted is certain.
    return About(max(int(plan[0]["Plan"]["Plan Rows"]), found), exact=False)
