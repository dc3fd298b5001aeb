"""The tree of a task's trajectories, as displayed: one row per branch, beside a drawing that connects the forks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg

from apps.trajectories.lists import Outcomes
from apps.trajectories.models import Step, Trajectory, TrajectoryQuerySet
from apps.trajectories.rendering.steps import LIGHT, StepHead, head_from

Actions = Sequence[bytes]
"""The digests of a trajectory's actions, in order; see `actions.digest_of`."""


@dataclass
class Branch:
    """Steps that a group of trajectories has in common, from `first` to `end` (exclusive). A run that ends where others continue has a
    branch without steps."""

    runs: list[int]
    """Indices into the list that the tree was built from."""
    first: int
    end: int
    children: list[Branch] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return self.end - self.first

    @property
    def is_end(self) -> bool:
        return not self.children


def tree_of(runs: Sequence[Actions]) -> list[Branch]:
    """The branches that begin at the first step, largest first; trajectories without steps form a branch of their own.

    At a fork the smallest come first, so that a branch is drawn right below the point where it leaves.
    """
    order = sorted(range(len(runs)), key=lambda i: tuple(runs[i]))
    roots: list[Branch] = []
    waiting = [(roots, order, 0)]
    while waiting:
        siblings, group, depth = waiting.pop()
        for alike in _split(runs, group, depth):
            end = shared_prefix(runs[alike[0]], runs[alike[-1]], start=depth)
            branch = Branch(sorted(alike), depth, end)
            siblings.append(branch)
            if any(len(runs[i]) > end for i in alike):
                waiting.append((branch.children, alike, end))
        siblings.sort(key=lambda branch: (len(branch.runs), branch.runs))
    return sorted(roots, key=lambda branch: (-len(branch.runs), branch.runs))


def shared_prefix(left: Actions, right: Actions, *, start: int = 0) -> int:
    """The length of the common prefix, given that the first `start` steps are equal."""
    most = min(len(left), len(right))
    while start < most and left[start] == right[start]:
        start += 1
    return start


def partings(run: Actions, others: Sequence[Actions]) -> dict[int, int]:
    """The steps at which runs with the same actions so far diverge from `run` or have ended: index → number of runs that leave there."""
    found: dict[int, int] = {}
    for other in others:
        index = shared_prefix(run, other)
        if index < len(run):
            found[index] = found.get(index, 0) + 1
    return dict(sorted(found.items()))


def _split(runs: Sequence[Actions], group: list[int], depth: int) -> list[list[int]]:
    """Split a sorted group by the action at `depth`. Sorted trajectories that agree at both ends agree in between."""
    return [list(alike) for _, alike in groupby(group, key=lambda i: runs[i][depth] if len(runs[i]) > depth else None)]


MAX_RUNS = 200
MAX_STEPS = 60_000
"""Total steps of all trajectories; older trajectories beyond it are left out."""

WIDTH = 200
ROW = 32
STUB = 5
"""Drawn length of a branch without steps."""


@dataclass(frozen=True)
class Line:
    """SVG geometry of a branch."""

    way_in: str
    """Path from its parent's end down to its row, or ""."""
    path: str
    """Path along its steps."""
    end: str
    """Position of the dot for trajectories that end, or ""."""
    tone: str
    weight: float


@dataclass(frozen=True)
class ForkRow:
    """One branch: its first step, which links to the replay, and how its trajectories ended."""

    head: StepHead | None
    run: Trajectory
    runs: list[Trajectory]
    first: int
    end: int
    outcomes: Outcomes
    reward: float | None
    """Mean of the known rewards."""
    forks: int
    pair: tuple[Trajectory, Trajectory] | None
    """Two trajectories that diverge at this branch's end, a success and a failure if there are both."""
    line: Line

    @property
    def number(self) -> int:
        """The step to open; for a branch without steps, the last one."""
        return min(self.first + 1, max(self.end, 1))

    @property
    def steps(self) -> int:
        return self.end - self.first

    @property
    def terminations(self) -> list[str]:
        return sorted({run.termination for run in self.runs if run.termination})


@dataclass(frozen=True)
class Forks:
    """All branches in preorder."""

    rows: list[ForkRow]
    runs: int
    is_all: bool
    """False if the task has more trajectories than are compared."""

    @property
    def height(self) -> int:
        return len(self.rows) * ROW

    @property
    def width(self) -> int:
        return WIDTH


def forks_of(runs: TrajectoryQuerySet) -> Forks:
    """The tree of the newest of these trajectories. Reads only light columns, in three queries regardless of their number."""
    newest = list(runs.for_list().order_by("-pk")[: MAX_RUNS + 1])
    compared = _within_budget(newest)
    actions = _actions(compared)
    branches = list(_preorder(tree_of([actions.get(run.pk, []) for run in compared])))
    heads = _heads([(compared[branch.runs[0]].pk, branch.first) for branch, _ in branches if branch.steps])
    scale = _scale(branches)
    places = {id(branch): place for place, (branch, _) in enumerate(branches)}
    rows = [
        _row(branch, compared, heads, _line(branch, parent, places, compared, scale)) for branch, parent in branches
    ]
    return Forks(rows, len(compared), is_all=len(compared) == len(newest))


def actions_of(runs: Sequence[Trajectory]) -> list[list[bytes]]:
    """The action digests of each trajectory."""
    found = _actions(runs)
    return [found.get(run.pk, []) for run in runs]


def _within_budget(newest: list[Trajectory]) -> list[Trajectory]:
    steps, count = 0, 0
    for run in newest[:MAX_RUNS]:
        steps += run.step_count
        if steps > MAX_STEPS and count > 1:
            break
        count += 1
    return newest[:count]


def _actions(runs: Sequence[Trajectory]) -> dict[UUID, list[bytes]]:
    found = Step.objects.filter(trajectory__in=[run.pk for run in runs]).order_by().values("trajectory_id")
    rows = found.annotate(actions=ArrayAgg("action", order_by="index")).values_list("trajectory_id", "actions")
    return {run: [bytes(action) for action in actions] for run, actions in rows}


def _heads(places: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], StepHead]:
    rows = Step.objects.filter(pk__in=places).values_list("trajectory_id", *LIGHT)
    return {(run, light[0]): head_from(*light) for run, *light in rows}


def _preorder(roots: list[Branch]) -> Iterator[tuple[Branch, Branch | None]]:
    """Each branch with its parent."""
    waiting: list[tuple[Branch, Branch | None]] = [(root, None) for root in reversed(roots)]
    while waiting:
        branch, parent = waiting.pop()
        yield branch, parent
        waiting += [(child, branch) for child in reversed(branch.children)]


def _row(branch: Branch, compared: list[Trajectory], heads: dict[tuple[UUID, int], StepHead], line: Line) -> ForkRow:
    runs = [compared[i] for i in branch.runs]
    rewards = [run.reward for run in runs if run.reward is not None]
    return ForkRow(
        head=heads.get((runs[0].pk, branch.first)),
        run=runs[0],
        runs=runs,
        first=branch.first,
        end=branch.end,
        outcomes=_outcomes(runs),
        reward=sum(rewards) / len(rewards) if rewards else None,
        forks=len(branch.children),
        pair=_pair([[compared[i] for i in child.runs] for child in branch.children]),
        line=line,
    )


def _outcomes(runs: Sequence[Trajectory]) -> Outcomes:
    return Outcomes(
        succeeded=sum(run.success is True for run in runs),
        failed=sum(run.success is False for run in runs),
        undecided=sum(run.success is None for run in runs),
    )


def _pair(sides: list[list[Trajectory]]) -> tuple[Trajectory, Trajectory] | None:
    if len(sides) < 2:
        return None
    for place, side in enumerate(sides):
        good = next((run for run in side if run.success is True), None)
        rest = (run for other, runs in enumerate(sides) if other != place for run in runs)
        bad = next((run for run in rest if run.success is False), None)
        if good and bad:
            return good, bad
    return sides[0][0], sides[1][0]


def _scale(branches: list[tuple[Branch, Branch | None]]) -> float:
    """Drawing units per step."""
    longest = max((branch.end for branch, _ in branches), default=0)
    return min(16.0, (WIDTH - 4 * STUB) / max(longest, 1))


def _line(
    branch: Branch, parent: Branch | None, places: dict[int, int], compared: list[Trajectory], scale: float
) -> Line:
    def across(step: int) -> float:
        return STUB + step * scale

    def down(of: Branch) -> float:
        return (places[id(of)] + 0.5) * ROW

    y, left = down(branch), across(branch.first)
    right = across(branch.end) if branch.steps else left + STUB
    outcomes = _outcomes([compared[i] for i in branch.runs])
    return Line(
        way_in=f"M{left:.4g} {down(parent):.5g}V{y:.5g}" if parent else "",
        path=f"M{left:.4g} {y:.5g}H{right:.4g}",
        end=f"M{right:.4g} {y:.5g}h0" if branch.is_end else "",
        tone=_tone(outcomes),
        weight=1.5 + min(6.0, 6.0 * outcomes.runs / max(len(compared), 1)),
    )


def _tone(outcomes: Outcomes) -> str:
    if outcomes.succeeded and outcomes.failed:
        return "mixed"
    return "good" if outcomes.succeeded else "bad" if outcomes.failed else "unknown"
