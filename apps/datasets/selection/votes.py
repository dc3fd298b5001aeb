"""Votes on a pair, and what they come to: the facts that deciding reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from apps.datasets.selection.drops import Drop


class Vote(NamedTuple):
    """One judgement of a pair (first, second)."""

    preference: str
    annotator: UUID
    strength: int
    """In favour of the first run: +3 … −3."""
    both_bad: bool
    first_was_left: bool | None
    """None: nothing says it."""

    @property
    def is_tie(self) -> bool:
        return self.strength == 0


class Belief(NamedTuple):
    """How likely it is that the first run is the better one, that neither is, and that the second is. They add up to 1."""

    first: float
    neither: float
    second: float

    @property
    def decided(self) -> float:
        return self.first + self.second

    def soft_label(self, *, first_won: bool) -> float:
        """How likely the winner is the better run, given that one of them is."""
        winner = self.first if first_won else self.second
        return winner / self.decided if self.decided else 0.5


def shares(votes: Sequence[Vote]) -> Belief:
    """What the votes say when everybody is believed alike: each answer's share of them."""
    if not votes:
        return Belief(0.0, 1.0, 0.0)
    first = len([vote for vote in votes if vote.strength > 0]) / len(votes)
    second = len([vote for vote in votes if vote.strength < 0]) / len(votes)
    return Belief(first, 1.0 - first - second, second)


class Ruling(NamedTuple):
    """A reviewer's decision about a pair (first, second)."""

    id: UUID
    strength: int
    """In favour of the first run: +3 … −3."""
    both_bad: bool


class Tally(NamedTuple):
    """Votes on a pair, by what they say of the winner."""

    votes_for: int
    votes_against: int
    votes_tied: int


class Verdict(NamedTuple):
    """A row: which run won, by how much, and on whose word."""

    first_won: bool
    strength: float
    """Mean strength of the votes for the winner, 1 … 3."""
    weight: float
    """With majority: lead divided by votes, 1 when unanimous. With each: 1 divided by the pair's rows."""
    soft_label: float
    """How likely it is that the winner is the better run, 0 … 1."""
    label_weight: float
    """How much that says: the chance that either is better; with each, shared among the pair's rows."""
    votes: tuple[Vote, ...]
    """The votes that were counted, those against the winner too."""
    ruling: UUID | None = None
    """The reviewer's decision that made it so."""

    @property
    def shown_left(self) -> float:
        """The share of the votes in which the winner stood on the left; a half where there is none."""
        if not self.votes:
            return 0.5
        return sum(vote.first_was_left == self.first_won for vote in self.votes) / len(self.votes)

    def tally(self) -> Tally:
        """How many voted for the winner, against it, and for neither."""
        for_first = sum(vote.strength > 0 for vote in self.votes)
        for_second = sum(vote.strength < 0 for vote in self.votes)
        tied = len(self.votes) - for_first - for_second
        return Tally(for_first, for_second, tied) if self.first_won else Tally(for_second, for_first, tied)


class Decision(NamedTuple):
    """What the votes on one pair come to."""

    verdicts: list[Verdict]
    dropped: list[Drop]
    """With majority at most one, for the pair; with each, one for each judgement that made no row."""
