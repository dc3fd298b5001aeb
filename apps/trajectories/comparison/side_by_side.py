"""Two trajectories as rows: identical stretches are folded, the rest is side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Sum

from apps.trajectories import queries
from apps.trajectories.comparison import step_alignment
from apps.trajectories.models import Step, Trajectory
from apps.trajectories.rendering.differences import mark_pair
from apps.trajectories.rendering.heads import StepHead, head_of
from apps.trajectories.rendering.results import results_and_rest
from apps.trajectories.rendering.steps import StepView, step_views

MAX_ROWS = 20
"""Rows opened per request."""

PAGE_ROWS = 1_000
"""Rows per page. Each is half a kilobyte and takes half a millisecond: all rows of two trajectories with 20,000 steps took half a minute."""

MAX_CONTEXT_CHARS = 8_000_000
"""Trajectories with more context than this are compared by their actions only: reading all messages would take seconds."""


class Row(NamedTuple):
    """Aligned steps of both trajectories; None where one has no counterpart."""

    number: int
    left: StepHead | None
    right: StepHead | None
    same_action: bool
    is_identical: bool

    @property
    def name(self) -> str:
        """Identifier of the row in requests: "3-5", "3-", or "-5", by the indices of its steps."""
        return f"{'' if self.left is None else self.left.index}-{'' if self.right is None else self.right.index}"


class Group(NamedTuple):
    """Consecutive rows that are all identical, or all not."""

    is_identical: bool
    rows: list[Row]


@dataclass(frozen=True)
class Page:
    """A page of rows, and the cursors of the previous and next pages ("" if there is none)."""

    rows: list[Row]
    total: int
    """Rows in the whole comparison."""
    previous: str
    next: str

    @property
    def groups(self) -> list[Group]:
        return [Group(key, list(rows)) for key, rows in groupby(self.rows, key=lambda row: row.is_identical)]

    @property
    def caption(self) -> str:
        return (
            f"Rows {self.rows[0].number + 1:,} to {self.rows[-1].number + 1:,} of {self.total:,}" if self.rows else ""
        )


@dataclass(frozen=True)
class Comparison:
    """Every step of both trajectories, exactly once."""

    rows: list[Row]
    first_difference: Row | None
    shared_prefix: int
    with_context: bool = True
    """Whether messages to the agent were compared too; see MAX_CONTEXT_CHARS."""

    def page(self, row: int | None = None) -> Page:
        """The page with a given row; by default, with the first difference."""
        if row is None:
            row = self.first_difference.number if self.first_difference else 0
        start = min(row, max(0, len(self.rows) - 1)) // PAGE_ROWS * PAGE_ROWS
        end = start + PAGE_ROWS
        return Page(
            self.rows[start:end],
            len(self.rows),
            previous=str(start - PAGE_ROWS) if start else "",
            next=str(end) if end < len(self.rows) else "",
        )

    @property
    def same_actions(self) -> int:
        return sum(row.same_action for row in self.rows)


class OpenRow(NamedTuple):
    """A row's steps, opened, with their differences marked."""

    name: str
    left: StepView | None
    right: StepView | None


def compare(left: Trajectory, right: Trajectory) -> Comparison:
    """Align two trajectories by their actions."""
    with_context = _context_chars(left, right) <= MAX_CONTEXT_CHARS
    return _aligned(left, right, _read(left, right, with_context=with_context), with_context=with_context)


def compare_read(left: Trajectory, right: Trajectory, steps: Mapping[UUID, Mapping[int, Step]]) -> Comparison:
    """Like `compare`, for steps that have been read, by trajectory and index."""
    in_order = [by_index[index] for by_index in steps.values() for index in sorted(by_index)]
    with_context = sum(step.context_chars for step in in_order) <= MAX_CONTEXT_CHARS
    return _aligned(left, right, in_order, with_context=with_context)


def _aligned(left: Trajectory, right: Trajectory, steps: Iterable[Step], *, with_context: bool) -> Comparison:
    """`steps` has each trajectory's steps in order."""
    read: dict[UUID, list[tuple[StepHead, step_alignment.Action]]] = defaultdict(list)
    closing = {trajectory.pk: trajectory.closing for trajectory in (left, right)} if with_context else {}
    for step, later in pairwise(chain(steps, [None])):
        assert step is not None, "only the last one has none after it"
        message = step.message if isinstance(step.message, dict) else {"content": step.message}
        context: list[Any] = []
        results: list[Any] = []
        if with_context:
            context, results = step.context, closing[step.trajectory_id] or []
            if later is not None and later.trajectory_id == step.trajectory_id:
                results = [result for _, result in results_and_rest(step.kind, later.context)[0]]
        action = step_alignment.action_of(message, context, results=results)
        read[step.trajectory_id].append((head_of(step), action._replace(tool=step.tool, key=bytes(step.action))))
    left_steps, right_steps = read[left.pk], read[right.pk]
    alignment = step_alignment.align([action for _, action in left_steps], [action for _, action in right_steps])
    rows = [
        Row(
            number,
            None if pair.left is None else left_steps[pair.left][0],
            None if pair.right is None else right_steps[pair.right][0],
            pair.same_action,
            pair.is_identical,
        )
        for number, pair in enumerate(alignment.pairs)
    ]
    first = alignment.first_divergence
    return Comparison(rows, None if first is None else rows[first], alignment.shared_prefix, with_context)


def open_rows(
    left: Trajectory, right: Trajectory, names: Sequence[str], part_url: Callable[[Trajectory, int], str]
) -> list[OpenRow]:
    """Open rows by name. Raises LookupError if one doesn't exist."""
    opened = []
    for name in names:
        first, dash, second = name.partition("-")
        if (
            not dash
            or not (first or second)
            or any(part and not (part.isdecimal() and len(part) < 9) for part in (first, second))
        ):
            raise LookupError(name)
        a = _opened(left, int(first), part_url) if first else None
        b = _opened(right, int(second), part_url) if second else None
        if a and b:
            a, b = mark_pair(a, b)
        opened.append(OpenRow(name, a, b))
    return opened


def _opened(trajectory: Trajectory, index: int, part_url: Callable[[Trajectory, int], str]) -> StepView:
    window = queries.window_of(trajectory, index, index)
    if not window.steps:
        raise LookupError(index)
    (view,) = step_views(
        window.steps,
        previous_kind=window.previous_kind,
        following=window.following,
        is_end=window.is_end,
        part_url=lambda at: part_url(trajectory, at),
    )
    return view


def _read(left: Trajectory, right: Trajectory, *, with_context: bool) -> Iterator[Step]:
    """The steps of both, through one cursor."""
    steps = Step.objects.filter(trajectory__in=(left, right)).order_by("trajectory_id", "index")
    steps = steps.defer("info") if with_context else steps.defer("info", "context")
    return steps.iterator(chunk_size=50)


def _context_chars(left: Trajectory, right: Trajectory) -> int:
    return Step.objects.filter(trajectory__in=(left, right)).aggregate(total=Sum("context_chars"))["total"] or 0
