"""Filters of trajectories as a query string, shared by the list, the API, and queues made from "all that match"."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Self
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.postgres.search import SearchQuery
from django.db.models import BooleanField, ExpressionWrapper, Func, Q, QuerySet
from django.db.models.expressions import Combinable
from django.http import QueryDict

from apps.common.ids import parsed_id
from apps.common.text_encoding import is_storable
from apps.trajectories.annotators import judged_by
from apps.trajectories.models import Task, TrajectoryQuerySet
from apps.trajectories.search import TASK_WORDS, tsquery_of

OUTCOMES = {"success": Q(success=True), "failure": Q(success=False), "none": Q(success=None)}
ERRORS = {"yes": Q(error_count__gt=0), "no": Q(error_count=0)}
NO_POLICY = "none"
FEW = 1_000


class BadFilter(ValueError):
    """An invalid value of the filter `name`: what was given and what was expected."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"`{name}` {problem}")
        self.name = name


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Values as in the query string; "" means no filter."""

    q: str = ""
    """Words of the task, or a trajectory's id or external id."""
    task: str = ""
    environment: str = ""
    policy: str = ""
    """A policy's id, or `none` for trajectories with an unknown policy."""
    outcome: str = ""
    """`success`, `failure`, or `none`."""
    errors: str = ""
    """`yes` or `no`: whether any step failed."""
    min_steps: str = ""
    max_steps: str = ""
    tool: str = ""
    """The name of a tool that a step called."""
    tag: str = ""
    source: str = ""
    batch: str = ""
    """An import's id: for the trajectories that it imported or gave an outcome."""
    rollouts: str = ""
    """The id of a batch of rollouts."""
    annotator: str = ""
    """The id of an annotator who judged it."""

    @classmethod
    def read(cls, query: QueryDict | str) -> Self:
        """The filters in a query string. Other parameters, such as a cursor, are ignored."""
        params = QueryDict(query) if isinstance(query, str) else query
        return cls(**{field.name: params.get(field.name, "").strip()[:300] for field in fields(cls)})

    @property
    def query(self) -> str:
        """The query string with these filters."""
        return urlencode({name: value for name, value in asdict(self).items() if value})

    def __bool__(self) -> bool:
        return bool(self.query)

    def apply(
        self, trajectories: TrajectoryQuerySet, *, workspace_id: UUID | None = None, reads_thousands: bool = False
    ) -> TrajectoryQuerySet:
        """The trajectories that match all filters. Raises BadFilter.

        Words and tags are looked up separately: Postgres can't estimate how rare a match is, and would scan the whole table from its newest row
        for the 50 that are requested. With `workspace_id`, the cost of the lookup depends on the workspace's size. `reads_thousands`: the
        newest thousands of matches are requested, rather than a page or all of them.
        """
        for name, value in asdict(self).items():
            if not is_storable(value):
                raise BadFilter(name, "holds a character that cannot be stored, such as NUL; expected text without it.")
        matches = trajectories
        if self.q:
            matches = matches.filter(_search_of(self.q, trajectories, workspace_id, reads_thousands=reads_thousands))
        if self.tag:
            matches = matches.filter(_having("tags", self.tag, trajectories))
        if self.tool:
            matches = matches.filter(_having("called", self.tool, trajectories))
        if self.annotator:
            matches = matches.filter(judged_by(_uuid("annotator", self.annotator)))
        if self.task:
            matches = matches.filter(task=_uuid("task", self.task))
        if self.environment:
            matches = matches.filter(
                _of_many(Task.objects.filter(workspace=workspace_id, environment=self.environment))
                if reads_thousands and workspace_id
                else Q(task__environment=self.environment)
            )
        if self.policy:
            matches = matches.filter(policy=None if self.policy == NO_POLICY else _uuid("policy", self.policy))
        if self.outcome:
            matches = matches.filter(_one_of("outcome", self.outcome, OUTCOMES))
        if self.errors:
            matches = matches.filter(_one_of("errors", self.errors, ERRORS))
        if self.min_steps:
            matches = matches.filter(step_count__gte=_count("min_steps", self.min_steps))
        if self.max_steps:
            matches = matches.filter(step_count__lte=_count("max_steps", self.max_steps))
        if self.source:
            matches = matches.filter(source=self.source)
        if self.batch:
            batch = _uuid("batch", self.batch)
            matches = matches.filter(Q(import_batch=batch) | Q(outcome_batch=batch))
        if self.rollouts:
            matches = matches.filter(rollout_batch=_uuid("rollouts", self.rollouts))
        return matches


class _Hashed(Func):
    """Membership in a subquery as a condition that Postgres evaluates once into a hash table.

    As a join it would be planned by the number of matches, which Postgres estimates as 1,000 where it's 50,000; instead of scanning from the newest
    row, it would then join and sort all of them.
    """

    template = "(%(expressions)s) IS TRUE"
    output_field = BooleanField()

    def __init__(self, condition: Q) -> None:
        super().__init__(ExpressionWrapper(condition, output_field=BooleanField()))


def _search_of(
    query: str, trajectories: TrajectoryQuerySet, workspace_id: UUID | None, *, reads_thousands: bool
) -> Q | Combinable:
    few_alike = first_few(trajectories.filter(external_id=query))
    by_id = Q(external_id=query) if few_alike is None else Q(pk__in=few_alike)
    if pk := parsed_id(query):
        by_id |= Q(pk=pk)
    tasks = tasks_saying(query, workspace_id)
    if tasks is None:
        return by_id
    if reads_thousands:
        return by_id | _of_many(tasks)
    few = first_few(tasks)
    return by_id | Q(task__in=tasks.values("pk") if few is None else few)


def _of_many(tasks: QuerySet[Task]) -> Q | Combinable:
    """The trajectories of these tasks, optimized for reading the newest thousands."""
    few = first_few(tasks)
    return _Hashed(Q(task__in=tasks.values("pk"))) if few is None else Q(task__in=few)


def _having(column: str, name: str, trajectories: TrajectoryQuerySet) -> Q:
    holds = Q(**{f"{column}__contains": [name]})
    few = first_few(trajectories.filter(holds))
    return holds if few is None else Q(pk__in=few)


def tasks_saying(search: str, workspace_id: UUID | None) -> QuerySet[Task] | None:
    """Tasks that contain all the words as prefixes; None if `search` has no words."""
    query = tsquery_of(search)
    if not query:
        return None
    tasks: QuerySet[Task] = Task.objects.filter(workspace=workspace_id) if workspace_id else Task.objects.all()
    return tasks.annotate(words=TASK_WORDS).filter(words=SearchQuery(query, search_type="raw", config="simple"))


def first_few(rows: QuerySet[Any]) -> list[UUID] | None:
    """The ids of `rows` if they are few; None if there are many, in which case a scan from the newest finds enough of them soon."""
    ids = list(rows.order_by().values_list("pk", flat=True)[: FEW + 1])
    return ids if len(ids) <= FEW else None


def _uuid(name: str, text: str) -> UUID:
    if pk := parsed_id(text):
        return pk
    raise BadFilter(name, f"is “{text}”; expected an id such as 0190a6f2-….")


def _one_of(name: str, value: str, choices: dict[str, Q]) -> Q:
    if value not in choices:
        raise BadFilter(name, f"is “{value}”; expected one of {', '.join(choices)}.")
    return choices[value]


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise BadFilter(name, f"is “{text}”; expected a number of steps.")
    return int(text)
