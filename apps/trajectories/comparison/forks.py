"""The tree of a task's trajectories, as displayed: one row per branch, beside a drawing that connects the forks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg

from apps.trajectories.lists import Outcomes
from apps.trajectories.models import Step, Trajectory, TrajectoryQuerySet
from apps.trajectories.rendering.heads import LIGHT, StepHead, head_from

Actions = Sequence[bytes]
"""The digests of a trajectory's actions, in order; see `actions.digest_of`."""


@dataclass
class Branch:
    """Steps that a group of trajectories has in common, from `first` to `end` (exclusive). A trajectory that ends where others continue
    has a branch without steps."""

    trajectories: list[int]
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


def tree_of(trajectories: Sequence[Actions]) -> list[Branch]:
    """The branches that begin at the first step, largest first; trajectories without steps form a branch of their own.

    At a fork the smallest come first, so that a branch is drawn right below the point where it leaves.
    """
    order = sorted(range(len(trajectories)), key=lambda i: tuple(trajectories[i]))
    roots: list[Branch] = []
    waiting = [(roots, order, 0)]
    while waiting:
        siblings, group, depth = waiting.pop()
        for alike in _split(trajectories, group, depth):
            end = shared_prefix(trajectories[alike[0]], trajectories[alike[-1]], start=depth)
            branch = Branch(sorted(alike), depth, end)
            siblings.append(branch)
            if any(len(trajectories[i]) > end for i in alike):
                waiting.append((branch.children, alike, end))
        siblings.sort(key=lambda branch: (len(branch.trajectories), branch.trajectories))
    return sorted(roots, key=lambda branch: (-len(branch.trajectories), branch.trajectories))


def shared_prefix(left: Actions, right: Actions, *, start: int = 0) -> int:
    """The length of the common prefix, given that the first `start` steps are equal."""
    shorter = min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    return start


def divergence_counts(trajectory: Actions, others: Sequence[Actions]) -> dict[int, int]:
    """The steps at which trajectories with the same actions so far diverge from `trajectory` or have ended: index → number that leave there."""
    counts: dict[int, int] = {}
    for other in others:
        index = shared_prefix(trajectory, other)
        if index < len(trajectory):
            counts[index] = counts.get(index, 0) + 1
    return dict(sorted(counts.items()))


def _split(trajectories: Sequence[Actions], group: list[int], depth: int) -> list[list[int]]:
    """Split a sorted group by the action at `depth`. Sorted trajectories that agree at both ends agree in between."""
    return [
        list(alike)
        for _, alike in groupby(group, key=lambda i: trajectories[i][depth] if len(trajectories[i]) > depth else None)
    ]


MAX_TRAJECTORIES = 200
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
    trajectory: Trajectory
    trajectories: list[Trajectory]
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
        return sorted({trajectory.termination for trajectory in self.trajectories if trajectory.termination})


@dataclass(frozen=True)
class Forks:
    """All branches in preorder."""

    rows: list[ForkRow]
    total: int
    is_all: bool
    """False if the task has more trajectories than are compared."""

    @property
    def height(self) -> int:
        return len(self.rows) * ROW

    @property
    def width(self) -> int:
        return WIDTH


def forks_of(trajectories: TrajectoryQuerySet) -> Forks:
    """The tree of the newest of these trajectories. Reads only light columns, in three queries regardless of their number."""
    newest = list(trajectories.for_list().order_by("-pk")[: MAX_TRAJECTORIES + 1])
    compared = _within_budget(newest)
    actions = _actions(compared)
    branches = list(_preorder(tree_of([actions.get(trajectory.pk, []) for trajectory in compared])))
    heads = _heads([(compared[branch.trajectories[0]].pk, branch.first) for branch, _ in branches if branch.steps])
    scale = _scale(branches)
    indices = {id(branch): index for index, (branch, _) in enumerate(branches)}
    rows = [
        _row(branch, compared, heads, _line(branch, parent, indices, compared, scale)) for branch, parent in branches
    ]
    return Forks(rows, len(compared), is_all=len(compared) == len(newest))


def actions_of(trajectories: Sequence[Trajectory]) -> list[list[bytes]]:
    """The action digests of each trajectory."""
    actions = _actions(trajectories)
    return [actions.get(trajectory.pk, []) for trajectory in trajectories]


def _within_budget(newest: list[Trajectory]) -> list[Trajectory]:
    steps, count = 0, 0
    for trajectory in newest[:MAX_TRAJECTORIES]:
        steps += trajectory.step_count
        if steps > MAX_STEPS and count > 1:
            break
        count += 1
    return newest[:count]


def _actions(trajectories: Sequence[Trajectory]) -> dict[UUID, list[bytes]]:
    steps = (
        Step.objects.filter(trajectory__in=[trajectory.pk for trajectory in trajectories])
        .order_by()
        .values("trajectory_id")
    )
    rows = steps.annotate(actions=ArrayAgg("action", order_by="index")).values_list("trajectory_id", "actions")
    return {trajectory: [bytes(action) for action in actions] for trajectory, actions in rows}


def _heads(keys: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], StepHead]:
    rows = Step.objects.filter(pk__in=keys).values_list("trajectory_id", *LIGHT)
    return {(trajectory, light[0]): head_from(*light) for trajectory, *light in rows}


def _preorder(roots: list[Branch]) -> Iterator[tuple[Branch, Branch | None]]:
    """Each branch with its parent."""
    waiting: list[tuple[Branch, Branch | None]] = [(root, None) for root in reversed(roots)]
    while waiting:
        branch, parent = waiting.pop()
        yield branch, parent
        waiting += [(child, branch) for child in reversed(branch.children)]


def _row(branch: Branch, compared: list[Trajectory], heads: dict[tuple[UUID, int], StepHead], line: Line) -> ForkRow:
    trajectories = [compared[i] for i in branch.trajectories]
    rewards = [trajectory.reward for trajectory in trajectories if trajectory.reward is not None]
    return ForkRow(
        head=heads.get((trajectories[0].pk, branch.first)),
        trajectory=trajectories[0],
        trajectories=trajectories,
        first=branch.first,
        end=branch.end,
        outcomes=_outcomes(trajectories),
        reward=sum(rewards) / len(rewards) if rewards else None,
        forks=len(branch.children),
        pair=_pair([[compared[i] for i in child.trajectories] for child in branch.children]),
        line=line,
    )


def _outcomes(trajectories: Sequence[Trajectory]) -> Outcomes:
    return Outcomes(
        succeeded=sum(trajectory.success is True for trajectory in trajectories),
        failed=sum(trajectory.success is False for trajectory in trajectories),
        undecided=sum(trajectory.success is None for trajectory in trajectories),
    )


def _pair(sides: list[list[Trajectory]]) -> tuple[Trajectory, Trajectory] | None:
    if len(sides) < 2:
        return None
    for index, side in enumerate(sides):
        good = next((trajectory for trajectory in side if trajectory.success is True), None)
        rest = (trajectory for other, trajectories in enumerate(sides) if other != index for trajectory in trajectories)
        bad = next((trajectory for trajectory in rest if trajectory.success is False), None)
        if good and bad:
            return good, bad
    return sides[0][0], sides[1][0]


def _scale(branches: list[tuple[Branch, Branch | None]]) -> float:
    """Drawing units per step."""
    longest = max((branch.end for branch, _ in branches), default=0)
    return min(16.0, (WIDTH - 4 * STUB) / max(longest, 1))


def _line(
    branch: Branch, parent: Branch | None, indices: dict[int, int], compared: list[Trajectory], scale: float
) -> Line:
    def x_of(step: int) -> float:
        return STUB + step * scale

    def y_of(of: Branch) -> float:
        return (indices[id(of)] + 0.5) * ROW

    y, left = y_of(branch), x_of(branch.first)
    right = x_of(branch.end) if branch.steps else left + STUB
    outcomes = _outcomes([compared[i] for i in branch.trajectories])
    return Line(
        way_in=f"M{left:.4g} {y_of(parent):.5g}V{y:.5g}" if parent else "",
        path=f"M{left:.4g} {y:.5g}H{right:.4g}",
        end=f"M{right:.4g} {y:.5g}h0" if branch.is_end else "",
        tone=_tone(outcomes),
        weight=1.5 + min(6.0, 6.0 * outcomes.total / max(len(compared), 1)),
    )


def _tone(outcomes: Outcomes) -> str:
    if outcomes.succeeded and outcomes.failed:
        return "mixed"
    return "good" if outcomes.succeeded else "bad" if outcomes.failed else "unknown"
