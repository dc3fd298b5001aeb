"""Votes on a single trajectory, and what they come to: the facts that deciding reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from apps.datasets.selection.drops import Drop


@dataclass(frozen=True)
class RunVote:
    """One judgment of one trajectory: an inspection of its steps, or a rating."""

    judgement: UUID
    annotator: UUID
    kind: str
    """Of its queue."""
    opinion: int
    """+1 the trajectory is accepted, −1 it is not, 0 neither."""
    first_error: int | None = None
    """Index of the first wrong step; −1 where somebody looked and found none; None where nobody looked."""
    labels: Mapping[int, int] = field(default_factory=dict)
    """Step -> −1, 0 or +1, as labeled by hand: what a first error filled in is not a label."""
    corrections: tuple[tuple[int, bytes, UUID | None], ...] = ()
    """(step, the better message as JSON, the policy that it was sampled from), in the order of steps."""


class RunVerdict(NamedTuple):
    """A row: what it says beyond the trajectory's messages, and on whose word."""

    votes: tuple[RunVote, ...]
    weight: float
    about: dict[str, Any]
    """The columns that only this row type has."""
    correction: tuple[int, bytes, UUID | None] | None = None
    """The better action that ends or parts the row."""


class RunDecision(NamedTuple):
    """What the votes on one trajectory come to."""

    verdicts: list[RunVerdict]
    dropped: list[Drop]


def latest_of_each(votes: Sequence[RunVote]) -> list[RunVote]:
    """Of each annotator's several judgments of one trajectory (in different queues) the newest of a kind, oldest first: ids grow with time."""
    ordered = sorted(votes, key=lambda vote: vote.judgement)
    newest = {(vote.annotator, vote.kind): vote for vote in ordered}
    return sorted(newest.values(), key=lambda vote: vote.judgement)


def standing(votes: Sequence[tuple[RunVote, UUID | None]]) -> list[RunVote]:
    """From votes, each with the judgment of its item that a reviewer upheld: those upheld; else the newest of each annotator.

    What a reviewer overruled counts for nothing, also where the author of what they upheld is left out.
    """
    upheld = [vote for vote, stands in votes if vote.judgement == stands]
    return upheld or latest_of_each([vote for vote, stands in votes if stands is None])
