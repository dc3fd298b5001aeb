"""What everybody's habits, or skills, say about each pair of a version. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

import numpy as np

from apps.annotation.quality.label_aggregation import Floats, Votes, dawid_skene, glad, majority
from apps.datasets.selection.votes import Belief, Vote

Beliefs = dict[tuple[str, str], Belief]
"""By the pair's first and second run."""

SECOND, NEITHER, FIRST = range(3)


def beliefs(pairs: Iterable[tuple[str, str, Sequence[Vote]]], aggregation: str) -> Beliefs:
    """For each pair (first run, second run, counted votes) that has a vote."""
    names: list[tuple[str, str]] = []
    given: list[tuple[int, UUID, int]] = []
    for first, second, votes in pairs:
        if votes:
            given += [(len(names), vote.annotator, _label(vote)) for vote in votes]
            names.append((first, second))
    if not names:
        return {}
    judged = Votes.of(given, items=len(names), labels=3)
    posterior = dawid_skene(judged).posterior if aggregation == "dawid_skene" else _by_skill(judged)
    return {name: Belief(*map(float, row[::-1])) for name, row in zip(names, posterior, strict=True)}


def _label(vote: Vote) -> int:
    return NEITHER + (vote.strength > 0) - (vote.strength < 0)


def _by_skill(votes: Votes) -> Floats:
    """GLAD knows two answers: ties say how likely neither is, by their share; the other judgments which run it is otherwise."""
    neither = majority(votes)[:, NEITHER]
    decided = votes.label != NEITHER
    known, annotator = np.unique(votes.annotator[decided], return_inverse=True)
    two_way = Votes(
        votes.item[decided], annotator, (votes.label[decided] == FIRST).astype(np.int64), votes.items, len(known), 2
    )
    first = glad(two_way).posterior
    return np.stack([(1 - neither) * (1 - first), neither, (1 - neither) * first], axis=1)
