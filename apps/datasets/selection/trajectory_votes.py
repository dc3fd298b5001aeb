"""Votes on a single trajectory, and the decisions made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from apps.datasets.selection.drops import Drop


@dataclass(frozen=True)
class TrajectoryVote:
    """One judgment of one trajectory: an inspection of its steps, or a rating."""

    judgment: UUID
    annotator: UUID
    kind: str
    """The queue's kind."""
    opinion: int
    """+1 the trajectory is accepted, −1 it isn't, 0 neither."""
    first_error: int | None = None
    """Index of the first wrong step; −1 if the annotator found none; None if they didn't look for one."""
    labels: Mapping[int, int] = field(default_factory=dict)
    """Step -> −1, 0, or +1, only as labeled by hand: labels filled in from a first error don't count."""
    corrections: tuple[tuple[int, bytes, UUID | None], ...] = ()
    """(step, the better message as JSON, the policy it was sampled from), in the order of steps."""


class TrajectoryVerdict(NamedTuple):
    """A row: its columns beyond the trajectory's messages, and the judgments behind it."""

    votes: tuple[TrajectoryVote, ...]
    weight: float
    metadata: dict[str, Any]
    """The columns specific to this row type."""
    correction: tuple[int, bytes, UUID | None] | None = None
    """The corrected action that ends the row or is its chosen side."""


class TrajectoryDecision(NamedTuple):
    """The decision from the votes on one trajectory."""

    verdicts: list[TrajectoryVerdict]
    dropped: list[Drop]


def latest_of_each(votes: Sequence[TrajectoryVote]) -> list[TrajectoryVote]:
    """Each annotator's newest judgment of each kind, oldest first, since one trajectory may be in several queues. Ids increase with time."""
    ordered = sorted(votes, key=lambda vote: vote.judgment)
    newest = {(vote.annotator, vote.kind): vote for vote in ordered}
    return sorted(newest.values(), key=lambda vote: vote.judgment)


def counting_votes(votes: Sequence[tuple[TrajectoryVote, UUID | None]]) -> list[TrajectoryVote]:
    """The votes that count, each annotator's newest: of those that a reviewer upheld, if any; otherwise of those on items without a decision.

    votes: each with the judgment that a reviewer upheld on its item, if any. Overruled votes are ignored, even if the upheld one's author is excluded.
    """
    upheld = [vote for vote, stands in votes if vote.judgment == stands]
    return latest_of_each(upheld or [vote for vote, stands in votes if stands is None])
