"""The trajectories that a queue is made from: selected individually, or all that match a filter of the list."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Self
from uuid import UUID

from django.db.models import QuerySet
from django.http import QueryDict

from apps.accounts.models import Workspace
from apps.annotation.kinds import KINDS
from apps.annotation.kinds.pair_selection import COURSE, Candidate, Pairing, Preview
from apps.common.ids import parsed_id
from apps.trajectories.filters import Filters
from apps.trajectories.models import Trajectory


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Trajectories of one workspace. Stored with the queue as its provenance."""

    ids: list[UUID] = field(default_factory=list)
    """Exactly these trajectories; empty if a filter selects."""
    filter: str = ""
    """The query string of the list of trajectories; empty means all."""
    until: UUID | None = None
    """The newest trajectory when the queue was made, so that later imports aren't included."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        until = data["until"]
        return cls(
            ids=[UUID(text) for text in data["ids"]], filter=data["filter"], until=UUID(until) if until else None
        )

    @classmethod
    def from_query(cls, query: QueryDict) -> Self:
        """Build a selection from `trajectory` ids, or everything that matches `filter` (a query string of the list of trajectories)."""
        ids = [pk for text in query.getlist("trajectory") if (pk := parsed_id(text))]
        return cls(ids=ids, filter="" if ids else Filters.read(query.get("filter", "")).query)

    def to_json(self) -> dict[str, Any]:
        return {
            "ids": [str(one) for one in self.ids],
            "filter": self.filter,
            "until": str(self.until) if self.until else None,
        }


def selected(workspace: Workspace, selection: Selection) -> QuerySet[Trajectory]:
    """The selected trajectories, limited to the workspace whatever the ids. Raises BadFilter."""
    trajectories = Trajectory.objects.filter(workspace=workspace)
    if selection.ids:
        trajectories = trajectories.filter(pk__in=selection.ids)
    elif selection.filter:
        trajectories = Filters.read(selection.filter).apply(trajectories)
    if selection.until:
        trajectories = trajectories.filter(pk__lte=selection.until)
    return trajectories


def preview_of(workspace: Workspace, selection: Selection, pairing: Pairing, kind: str) -> Preview:
    """What `pairing` would yield on this selection, counted by the database without reading steps."""
    return KINDS[kind].preview(pairing, selected(workspace, selection))


def candidates_by_task(
    workspace: Workspace, selection: Selection, pairing: Pairing, *, after: UUID | None, tasks: int
) -> Iterator[tuple[UUID, list[Candidate]]]:
    """The selected trajectories of the next `tasks` tasks after `after`, task by task."""
    matches = selected(workspace, selection)
    beyond = matches.filter(task_id__gt=after) if after else matches
    batch = list(beyond.order_by("task_id").values_list("task_id", flat=True).distinct()[:tasks])
    trajectories = matches.filter(task_id__in=batch).order_by("task_id", "pk").annotate(known_course=COURSE)
    rows = trajectories.values_list("task_id", "pk", *pairing.traits, "known_course")
    for task, task_rows in groupby(rows, key=lambda row: row[0]):
        yield task, [Candidate(pk, pairing.read(traits), course) for _, pk, *traits, course in task_rows]
