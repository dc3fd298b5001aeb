"""Runs of one task as a tree of what they did: those that began alike share a branch, and it forks where they part. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

Actions = Sequence[bytes]
"""The digests of a run's steps, in order; see `actions.digest_of`."""


@dataclass
class Branch:
    """Steps that some runs took alike: `first` to `end` (exclusive). A run that ends where others go on has a branch without steps."""

    runs: list[int]
    """Places in the list that the tree was made of."""
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
    """The branches that begin at the first step, those of most runs first; runs without a step make one of their own.

    At a fork those of fewest runs come first: read from top to bottom, what leaves stands right below where it leaves.
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
    """How many steps from the beginning are alike, where those before `start` are known to be."""
    most = min(len(left), len(right))
    while start < most and left[start] == right[start]:
        start += 1
    return start


def partings(run: Actions, others: Sequence[Actions]) -> dict[int, int]:
    """The steps at which runs that acted like `run` until then act otherwise, or have ended: index → how many leave there."""
    found: dict[int, int] = {}
    for other in others:
        index = shared_prefix(run, other)
        if index < len(run):
            found[index] = found.get(index, 0) + 1
    return dict(sorted(found.items()))


def _split(runs: Sequence[Actions], group: list[int], depth: int) -> list[list[int]]:
    """A sorted group by what each did at `depth`. Sorted runs that agree at both ends agree in between."""
    return [list(alike) for _, alike in groupby(group, key=lambda i: runs[i][depth] if len(runs[i]) > depth else None)]
