"""Shared by the kinds that judge a single trajectory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, QuerySet
from rest_framework import serializers

from apps.annotation.kinds.blindness import steps_around, unsigned, views_of
from apps.annotation.kinds.kind import A, J, JudgmentSerializer, K, Kind, PartUrl
from apps.annotation.kinds.pair_selection import Candidate, Pairing, Preview, shuffled_place
from apps.annotation.kinds.pair_view import CHUNK, OPENED
from apps.annotation.models import Adjudication, Assignment, Item
from apps.annotation.refusals import NothingToJudge
from apps.trajectories import queries
from apps.trajectories.models import Trajectory
from apps.trajectories.rendering.heads import StepHead
from apps.trajectories.rendering.steps import StepView

SIDE = "run"
"""Stands in for the side in URLs of parts."""


class InspectionRow(NamedTuple):
    """A step: its summary line and, once opened, its content."""

    head: StepHead
    view: StepView | None

    @property
    def number(self) -> int:
        return self.head.index

    @property
    def anchor(self) -> str:
        """The step's anchor on the page, to which its number links."""
        return f"#row-{self.number}"


class SingleTrajectoryView(NamedTuple):
    """The trajectory as shown at the desk, without anything that reveals its policy or outcome. URLs never contain the trajectory's id."""

    instruction: str
    users_script: str
    """Instructions of a simulated user; the agent never saw them."""
    rows: list[InspectionRow]


def view_of(assignment: Assignment, part_url: PartUrl) -> SingleTrajectoryView:
    """The whole trajectory as lines, with its first steps opened."""
    trajectory = assignment.item.a
    heads = [unsigned(head) for head in queries.heads_of(trajectory)]
    task = assignment.item.task
    return SingleTrajectoryView(task.headline, task.users_script, _rows(trajectory, heads, range(OPENED), part_url))


def rows_of(assignment: Assignment, part_url: PartUrl, start: int) -> list[InspectionRow]:
    """The steps from `start` on, opened; at most CHUNK."""
    trajectory = assignment.item.a
    heads = [unsigned(head) for head in queries.heads_of(trajectory)[start : start + CHUNK]]
    return _rows(trajectory, heads, range(start, start + CHUNK), part_url)


def _rows(trajectory: Trajectory, heads: list[StepHead], opened: range, part_url: PartUrl) -> list[InspectionRow]:
    indices = {head.index for head in heads if head.index in opened}
    views = views_of(
        trajectory, steps_around({trajectory.pk: indices})[trajectory.pk], indices, lambda index: part_url(SIDE, index)
    )
    return [InspectionRow(head, views.get(head.index)) for head in heads]


class SingleTrajectorySerializer(JudgmentSerializer[J]):
    """A judgment of one trajectory."""

    trajectory = serializers.UUIDField(source="item.a_id")


class SingleTrajectoryKind(Kind[K, A, J]):
    """Shows one trajectory; reviewers choose which judgment to uphold."""

    noun, plural = "trajectory", "trajectories"

    rows_template = "annotation/_walk_rows.html"
    cannot_tell = "I cannot tell what is right here"

    def trajectory_context(self, assignment: Assignment, part_url: PartUrl) -> dict[str, Any]:
        return {"run": view_of(assignment, part_url)}

    def rows_shown(self, assignment: Assignment, part_url: PartUrl, start: int) -> dict[str, Any]:
        return {"rows": rows_of(assignment, part_url, start)}

    def trajectory_at(self, assignment: Assignment, side: str) -> Trajectory | None:
        return assignment.item.a if side == SIDE else None

    question_of_review = "Which judgment stands?"

    def review_choices(self, judgments: Sequence[J]) -> list[tuple[str, str]]:
        return [(str(judgment.pk), self.judgment_text(judgment)) for judgment in judgments]

    def decision(self, value: str, *, a_is_left: bool) -> dict[str, Any]:
        return {"upheld": UUID(value)}

    def chosen(self, decision: Adjudication, *, a_is_left: bool) -> str:
        return str(decision.upheld)

    def decision_text(self, decision: Adjudication, judgments: Sequence[J], *, a_is_left: bool | None) -> str:
        upheld = (self.judgment_text(judgment) for judgment in judgments if judgment.pk == decision.upheld)
        return next(upheld, "one judgment stands")

    def agrees(self, decision: Adjudication, judgment: J) -> bool:
        return decision.upheld == judgment.pk

    def decision_text_for(self, judgment: J, decision: Adjudication) -> str:
        return "your judgment stands" if self.agrees(decision, judgment) else "another judgment stands"

    def decision_problem(self, decision: Mapping[str, Any]) -> tuple[str, str] | None:
        if decision["upheld"] is None or decision["strength"] is not None or decision["both_bad"]:
            return "upheld", "Give the id of the judgment that stands, and nothing else."
        return None

    @abstractmethod
    def opinion(self, values: Mapping[str, Any], asks: Mapping[str, Any]) -> int:
        """Whether a judgment with these columns accepts the trajectory: +1 it does, −1 it doesn't, 0 neither."""

    nothing_to_do = NothingToJudge

    def preview(self, pairing: Pairing, trajectories: QuerySet[Trajectory]) -> Preview:
        sizes = trajectories.order_by().values("task_id").annotate(count=Count("pk")).values_list("count", flat=True)
        result = Preview()
        for size in sizes.iterator(chunk_size=10_000):
            drawn = size if pairing.per_task is None else min(size, pairing.per_task)
            result.tasks += 1
            result.paired_tasks += 1
            result.runs += size
            result.paired_runs += drawn
            result.items += drawn
        return result

    def draw(self, pairing: Pairing, task: UUID, candidates: list[Candidate]) -> Iterator[Item]:
        """At most `per_task` of them, deterministic for the same trajectories."""
        chosen: Sequence[int] = range(len(candidates))
        if pairing.per_task is not None and pairing.per_task < len(candidates):
            chosen = sorted(Random(f"{pairing.seed} {task}").sample(chosen, pairing.per_task))
        for index in chosen:
            trajectory_id = candidates[index].id
            yield Item(task_id=task, a_id=trajectory_id, position=shuffled_place(f"{pairing.seed} {trajectory_id}"))

    def pairing_text(self, pairing: Pairing) -> str:
        return pairing.of_single_trajectories
