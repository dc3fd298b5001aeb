"""The two trajectories of an assignment as its annotator may see them: aligned, and without anything that reveals their policies or outcomes.

URLs contain the assignment's id and a side, never a trajectory's id.
"""

import pickle
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q

from apps.annotation.kinds.blindness import steps_around, unsigned, views_of
from apps.annotation.kinds.kind import PartUrl
from apps.annotation.models import Assignment
from apps.common.cache import recall, remember
from apps.common.code_version import code_version
from apps.common.compiled_queries import CompiledQuery
from apps.common.compiled_templates import render_macro
from apps.common.markup import Markup
from apps.trajectories.comparison import side_by_side
from apps.trajectories.models import Step, Trajectory
from apps.trajectories.rendering.differences import mark_pair
from apps.trajectories.rendering.heads import StepHead
from apps.trajectories.rendering.steps import StepView

OPENED = 6
"""Rows that are opened initially, from the first difference on; the rest is loaded before it's needed."""
CHUNK = 8
REMEMBERED_SECONDS = 3600
SLOTS = 64
MAX_BYTES = 4 << 20
"""Compressed size limit of a comparison: 256 MiB for all slots, since Valkey is also the workers' broker."""


class Rows(NamedTuple):
    """Rendered rows, and the index of the first in which the sides differ."""

    first: int | None
    markup: Markup


class Row(NamedTuple):
    """A step beside its counterpart: a summary line of each (None if a trajectory has none) and, once opened, the content."""

    number: int
    left: StepHead | None
    right: StepHead | None
    left_view: StepView | None
    right_view: StepView | None
    same_action: bool
    is_identical: bool

    @property
    def is_open(self) -> bool:
        return bool(self.left_view or self.right_view)

    @property
    def anchor(self) -> str:
        """The step's anchor on the page, to which its number links."""
        return f"#row-{self.number}"


class Stretch(NamedTuple):
    """Adjacent rows that are all identical (and folded) or all different."""

    is_identical: bool
    rows: list[Row]


@dataclass(frozen=True)
class Pair:
    """Everything the desk shows about two trajectories."""

    instruction: str
    users_script: str
    """Instructions of a simulated user; the agent never saw them."""
    rows: Markup
    first: int | None
    """The row of the first difference; None if the trajectories are identical."""
    left_steps: int
    right_steps: int


def pair_of(assignment: Assignment, part_url: PartUrl) -> Pair:
    """The whole pair as lines, opened at the first difference."""
    left, right = sides_of(assignment)
    rows = _rows(assignment, part_url)
    return Pair(
        instruction=assignment.item.task.headline,
        users_script=assignment.item.task.users_script,
        rows=rows.markup,
        first=rows.first,
        left_steps=left.step_count,
        right_steps=right.step_count,
    )


def _rows(assignment: Assignment, part_url: PartUrl) -> Rows:
    left, right = sides_of(assignment)
    steps = _all_steps(left, right) if max(left.step_count, right.step_count) <= OPENED + 2 else None
    compared = _compared(assignment) if steps is None else side_by_side.compare_read(left, right, steps)
    first = compared.first_difference.number if compared.first_difference else None
    opened = range(first or 0, (first or 0) + OPENED)
    rows = _open(left, right, compared.rows, opened, part_url, steps)
    stretches = [Stretch(same, list(group)) for same, group in groupby(rows, key=lambda row: row.is_identical)]
    return Rows(first, render_macro("annotation/pair_rows.jinja", "stretches", stretches))


def rows_of(assignment: Assignment, part_url: PartUrl, start: int) -> list[Row]:
    """The rows from `start` on, opened; at most CHUNK."""
    left, right = sides_of(assignment)
    numbers = range(start, start + CHUNK)
    rows = [row for row in _compared(assignment).rows if row.number in numbers]
    return _open(left, right, rows, numbers, part_url)


def sides_of(assignment: Assignment) -> tuple[Trajectory, Trajectory]:
    """The trajectories on the left and on the right."""
    item = assignment.item
    assert item.b is not None, "only pairs have sides"
    return (item.a, item.b) if assignment.a_is_left else (item.b, item.a)


def _compared(assignment: Assignment) -> side_by_side.Comparison:
    """The alignment. Cached, since long trajectories are slow to read, and rows are loaded in chunks.

    For this assignment only: if what somebody else has opened came faster, gold items would stand out, since everybody gets them.
    """
    left, right = sides_of(assignment)
    slot, pair = f"compared:{assignment.pk.int % SLOTS}", _identity(assignment.pk, left, right)
    cached = recall(slot)
    if isinstance(cached, tuple) and cached[0] == pair:
        comparison: side_by_side.Comparison = pickle.loads(zlib.decompress(cached[1]))
        return comparison
    comparison = side_by_side.compare(left, right)
    body = zlib.compress(pickle.dumps(comparison), 1)
    if len(body) <= MAX_BYTES:
        remember(slot, (pair, body), seconds=REMEMBERED_SECONDS)
    return comparison


def _identity(assignment: UUID, *sides: Trajectory) -> tuple[bytes, ...]:
    """Identifies one comparison: an edit of a trajectory, or a new release, makes another."""
    return (code_version(), assignment.bytes, *(bytes(side.content_hash) for side in sides))


def _open(
    left: Trajectory,
    right: Trajectory,
    rows: list[side_by_side.Row],
    opened: range,
    part_url: PartUrl,
    steps: Mapping[UUID, Mapping[int, Step]] | None = None,
) -> list[Row]:
    """These rows, those in `opened` with their full steps. steps: steps that were already read."""
    chosen = [row for row in rows if row.number in opened]
    indices = {
        left.pk: {row.left.index for row in chosen if row.left},
        right.pk: {row.right.index for row in chosen if row.right},
    }
    steps = steps if steps is not None else steps_around(indices)
    left_views = views_of(left, steps[left.pk], indices[left.pk], lambda index: part_url("left", index))
    right_views = views_of(right, steps[right.pk], indices[right.pk], lambda index: part_url("right", index))
    return [_row(row, left_views, right_views) for row in rows]


def _all_steps(left: Trajectory, right: Trajectory) -> Mapping[UUID, dict[int, Step]]:
    """Every step by trajectory and index, for trajectories so short that most of it is shown at once."""
    steps: dict[UUID, dict[int, Step]] = {left.pk: {}, right.pk: {}}
    for step in _STEPS.all(left=left.pk, right=right.pk):
        steps[step.trajectory_id][step.index] = step
    return steps


_STEPS = CompiledQuery(
    lambda left, right: Step.objects.filter(Q(trajectory=left) | Q(trajectory=right)), left=UUID, right=UUID
)


def _row(row: side_by_side.Row, left_views: dict[int, StepView], right_views: dict[int, StepView]) -> Row:
    left = left_views.get(row.left.index) if row.left else None
    right = right_views.get(row.right.index) if row.right else None
    if left and right and not row.is_identical:
        left, right = mark_pair(left, right)
    return Row(row.number, _blind(row.left), _blind(row.right), left, right, row.same_action, row.is_identical)


def _blind(head: StepHead | None) -> StepHead | None:
    return None if head is None else unsigned(head)
