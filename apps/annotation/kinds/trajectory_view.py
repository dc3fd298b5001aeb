"""The one run of an assignment as its annotator may see it: nothing tells who made it, or how it ended.

Addresses name the assignment, never the run.
"""

from collections.abc import Callable
from typing import NamedTuple

from apps.annotation.kinds.blindness import steps_around, unsigned, views_of
from apps.annotation.kinds.pair_view import CHUNK, OPENED
from apps.annotation.models import Assignment
from apps.trajectories import queries
from apps.trajectories.models import Trajectory
from apps.trajectories.rendering.steps import StepHead, StepView

SIDE = "run"
"""What addresses of parts say where those of pairs name a side."""

PartUrl = Callable[[str, int], str]
"""The address of the parts of a step, by side and index; the side is always `SIDE`."""


class WalkRow(NamedTuple):
    """A step: a line of it and, once opened, all of it."""

    head: StepHead
    view: StepView | None

    @property
    def number(self) -> int:
        return self.head.index

    @property
    def anchor(self) -> str:
        """Where the step's number leads: to its row in this page."""
        return f"#row-{self.number}"


class Run(NamedTuple):
    """Everything about the run that the desk shows."""

    instruction: str
    users_script: str
    """What only a simulated user was told; no agent saw it."""
    rows: list[WalkRow]


def run_of(assignment: Assignment, part_url: PartUrl) -> Run:
    """The whole run in lines, opened at its start."""
    run = assignment.item.a
    heads = [unsigned(head) for head in queries.heads_of(run)]
    task = assignment.item.task
    return Run(task.headline, task.users_script, _rows(run, heads, range(OPENED), part_url))


def rows_of(assignment: Assignment, part_url: PartUrl, start: int) -> list[WalkRow]:
    """The steps from `start` on, opened; at most CHUNK."""
    run = assignment.item.a
    heads = [unsigned(head) for head in queries.heads_of(run)[start : start + CHUNK]]
    return _rows(run, heads, range(start, start + CHUNK), part_url)


def _rows(run: Trajectory, heads: list[StepHead], opened: range, part_url: PartUrl) -> list[WalkRow]:
    wanted = {head.index for head in heads if head.index in opened}
    views = views_of(run, steps_around({run.pk: wanted})[run.pk], wanted, lambda index: part_url(SIDE, index))
    return [WalkRow(head, views.get(head.index)) for head in heads]
