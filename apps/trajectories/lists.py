"""Queries of the lists of trajectories and tasks. None of them counts a whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Count, Q, QuerySet

from apps.accounts.models import Membership
from apps.common.sorting import Column, Order, by_age, by_name
from apps.policies.models import Policy
from apps.trajectories.filter_chips import value_text
from apps.trajectories.filters import NO_POLICY, Filters, first_few, tasks_saying
from apps.trajectories.models import Task, Trajectory
from apps.trajectories.rendering.blocks import Block, text_block
from apps.trajectories.rendering.forms import ContentLocation

PAGE = 50
CAP = 1_000
CHOICES = 200
TRAJECTORY_COLUMNS = (
    Column(
        "Steps",
        Order("longest", ("-step_count", "-pk"), "Longest first"),
        Order("shortest", ("step_count", "pk"), "Shortest first"),
    ),
    by_age("Added"),
)
TASK_COLUMNS = (
    Column(
        "Task",
        Order("key", ("environment", "key"), "By environment and key"),
        Order("-key", ("-environment", "-key"), "By environment and key, backward"),
    ),
    by_age("Added"),
)
IMPORT_COLUMNS = (
    by_name("File", "filename", "pk", of="file"),
    Column(
        "Trajectories",
        Order("largest", ("-trajectory_count", "-pk"), "Largest first"),
        Order("smallest", ("trajectory_count", "pk"), "Smallest first"),
    ),
    by_age("Uploaded"),
)


class Capped(NamedTuple):
    """A count with a limit: `number` is exact unless `is_capped`."""

    number: int
    is_capped: bool

    def __str__(self) -> str:
        return f"{self.number:,}{'+' if self.is_capped else ''}"


class Choices(NamedTuple):
    """Options of the filters."""

    environments: list[str]
    policies: list[tuple[str, str]]


@dataclass(frozen=True)
class Outcomes:
    """How the trajectories of a task ended."""

    succeeded: int = 0
    failed: int = 0
    undecided: int = 0

    @property
    def total(self) -> int:
        return self.succeeded + self.failed + self.undecided

    @property
    def share(self) -> float | None:
        """Success rate among trajectories with a known outcome."""
        total = self.succeeded + self.failed
        return self.succeeded / total if total else None


def capped_count(rows: QuerySet[Any]) -> Capped:
    """The number of rows, up to CAP."""
    number = rows.order_by()[: CAP + 1].count()
    return Capped(min(number, CAP), number > CAP)


def choices(member: Membership, filters: Filters) -> Choices:
    """The environments and policies to choose from, and those chosen: with many, these may not be among the first."""
    visible = (
        Policy.objects.visible_to(member, at_least=Trajectory.visible_from).order_by("name").values_list("pk", "name")
    )
    policies = [(str(key), name) for key, name in visible[:CHOICES]]
    if filters.policy not in ("", NO_POLICY, *(key for key, _ in policies)):
        policies.append((filters.policy, value_text(member, "policy", filters.policy)))
    names = environments(member)
    return Choices(names if filters.environment in ("", *names) else [*names, filters.environment], policies)


# Postgres has no loose index scan: a recursive query for the next value reads one index entry per environment.
_ENVIRONMENTS = """
WITH RECURSIVE found(environment) AS (
    (SELECT environment FROM trajectories_task WHERE workspace_id = %(workspace)s ORDER BY environment LIMIT 1)
    UNION ALL
    SELECT (SELECT environment FROM trajectories_task
            WHERE workspace_id = %(workspace)s AND environment > found.environment ORDER BY environment LIMIT 1)
    FROM found WHERE found.environment IS NOT NULL
)
SELECT environment FROM found WHERE environment <> '' LIMIT %(limit)s
"""


def environments(member: Membership) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(_ENVIRONMENTS, {"workspace": member.workspace_id, "limit": CHOICES})
        return [name for (name,) in cursor.fetchall()]


def tasks(member: Membership, query: str) -> QuerySet[Task]:
    """Tasks that match the words of `query`, or all if it has none."""
    matches: QuerySet[Task] = Task.objects.visible_to(member).defer("initial_state", "success_check")
    saying = tasks_saying(query, member.workspace_id)
    if saying is None:
        return matches
    few = first_few(saying)
    return matches.filter(pk__in=saying.values("pk")) if few is None else matches.filter(pk__in=few)


def with_outcomes(shown: Sequence[Task]) -> list[tuple[Task, Outcomes]]:
    """Each task with how its trajectories ended; one query for all."""
    counted = (
        Trajectory.objects.filter(task__in=[task.pk for task in shown])
        .order_by()
        .values("task_id")
        .annotate(**_COUNTS)
        .values_list("task_id", *_COUNTS)
    )
    by_task = {task_id: Outcomes(*counts) for task_id, *counts in counted}
    return [(task, by_task.get(task.pk, Outcomes())) for task in shown]


def outcomes_of(task: Task) -> Outcomes:
    return Outcomes(**Trajectory.objects.filter(task=task).aggregate(**_COUNTS))


def by_policy(task: Task) -> list[tuple[str, Outcomes]]:
    """Each policy's outcomes on the task, the most successful first. Without branches: somebody else, or a correction, began those."""
    rows = Trajectory.objects.filter(task=task, parent=None).order_by().values("policy__name").annotate(**_COUNTS)
    outcomes = [
        (name or "Not known", Outcomes(*counts)) for name, *counts in rows.values_list("policy__name", *_COUNTS)
    ]
    return sorted(outcomes, key=lambda row: (-(row[1].share or 0), row[0]))[:CHOICES]


TASK_DETAILS = {"initial_state": "Initial state", "success_check": "Success check"}


def task_details(task: Task, url: str) -> list[tuple[str, Block]]:
    """The task's initial state and success check, as trees. `url`: where the rest of long ones is fetched."""
    details = ((name, title, getattr(task, name)) for name, title in TASK_DETAILS.items())
    return [(title, text_block(value, ContentLocation(url, name))) for name, title, value in details if value]


def task_detail(task: Task, name: str) -> Any:
    """One of TASK_DETAILS. Raises LookupError."""
    if name not in TASK_DETAILS:
        raise LookupError(name)
    return getattr(task, name)


_COUNTS = {
    "succeeded": Count("pk", filter=Q(success=True)),
    "failed": Count("pk", filter=Q(success=False)),
    "undecided": Count("pk", filter=Q(success=None)),
}
