"""Votes on a pair, and the decision from them: rows, or the reason why there are none. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from apps.datasets.selection.drops import Drop

if TYPE_CHECKING:  # avoids an import cycle: a recipe names row types, whose declarations use verdicts
    from apps.datasets.recipe import Recipe


class Vote(NamedTuple):
    """One judgment of a pair (first, second)."""

    preference: str
    annotator: UUID
    strength: int
    """Positive favors the first trajectory: +3 … −3."""
    both_bad: bool
    first_was_left: bool | None
    """None if it wasn't recorded."""

    @property
    def is_tie(self) -> bool:
        return self.strength == 0


class Belief(NamedTuple):
    """The probabilities that the first trajectory is better, that neither is, and that the second is. They sum to 1."""

    first: float
    neither: float
    second: float

    @property
    def decided(self) -> float:
        return self.first + self.second

    def soft_label(self, *, first_won: bool) -> float:
        """The probability that the winner is the better trajectory, given that one of them is."""
        winner = self.first if first_won else self.second
        return winner / self.decided if self.decided else 0.5


def shares(votes: Sequence[Vote]) -> Belief:
    """The share of each answer, with all annotators weighted equally."""
    if not votes:
        return Belief(0.0, 1.0, 0.0)
    first = len([vote for vote in votes if vote.strength > 0]) / len(votes)
    second = len([vote for vote in votes if vote.strength < 0]) / len(votes)
    return Belief(first, 1.0 - first - second, second)


class Ruling(NamedTuple):
    """A reviewer's decision about a pair (first, second)."""

    id: UUID
    strength: int
    """Positive favors the first trajectory: +3 … −3."""
    both_bad: bool


class Tally(NamedTuple):
    """The votes on a pair: for the winner, against it, and neither."""

    votes_for: int
    votes_against: int
    votes_tied: int


class Verdict(NamedTuple):
    """A row: the winning trajectory, its margin, and the judgments behind it."""

    first_won: bool
    strength: float
    """Mean strength of the votes for the winner, 1 … 3."""
    weight: float
    """With majority: lead divided by votes, 1 when unanimous. With each: 1 divided by the pair's rows."""
    soft_label: float
    """Probability that the winner is the better trajectory, 0 … 1."""
    label_weight: float
    """Weight of the soft label: the probability that either is better; with each, divided among the pair's rows."""
    votes: tuple[Vote, ...]
    """The votes that were counted, including those against the winner."""
    ruling: UUID | None = None
    """The reviewer's decision, if one determined the verdict."""

    @property
    def shown_left(self) -> float:
        """Of the votes that recorded the sides, the share in which the winner was shown on the left; a half if none did."""
        sides = [vote.first_was_left == self.first_won for vote in self.votes if vote.first_was_left is not None]
        return sum(sides) / len(sides) if sides else 0.5

    def tally(self) -> Tally:
        """The number of votes for the winner, against it, and for neither."""
        for_first = sum(vote.strength > 0 for vote in self.votes)
        for_second = sum(vote.strength < 0 for vote in self.votes)
        tied = len(self.votes) - for_first - for_second
        return Tally(for_first, for_second, tied) if self.first_won else Tally(for_second, for_first, tied)


class Decision(NamedTuple):
    """The decision from the votes on one pair."""

    verdicts: list[Verdict]
    dropped: list[Drop]
    """With majority at most one, for the pair; with each, one for each judgment that made no row."""


def counted(votes: Sequence[Vote], recipe: Recipe) -> list[Vote]:
    """The votes that count: each annotator's latest on a pair that is in several queues, without dropped ties."""
    if len(votes) > 1:
        votes = latest(votes)
    return [
        vote
        for vote in votes
        if not (vote.both_bad and recipe.both_bad == "drop")
        and not (vote.is_tie and not vote.both_bad and recipe.ties == "drop")
    ]


def latest(votes: Sequence[Vote]) -> list[Vote]:
    """Each annotator's newest vote, oldest first. Ids increase with time."""
    latest = {vote.annotator: vote for vote in sorted(votes, key=lambda vote: vote.preference)}
    return sorted(latest.values(), key=lambda vote: vote.preference)


def decide(votes: Sequence[Vote], recipe: Recipe, belief: Belief | None = None) -> Decision:
    """Apply the recipe to the counted votes on one pair. `belief`: the aggregation model's estimate; None to use the vote shares."""
    believed = belief or shares(votes)
    if recipe.judgments == "each":
        return _each(votes, recipe, believed)
    return _majority(votes, recipe, believed) if belief is None else _decide_by_belief(votes, recipe, believed)


def decide_by(ruling: Ruling, votes: Sequence[Vote], recipe: Recipe) -> Decision:
    """A reviewer's decision determines the row with certainty; the votes are recorded unchanged."""
    if ruling.strength == 0:
        return Decision([], [Drop.BOTH_BAD if ruling.both_bad else Drop.TIE])
    if abs(ruling.strength) < recipe.minimum_strength:
        return Decision([], [Drop.WEAK])
    verdict = Verdict(ruling.strength > 0, float(abs(ruling.strength)), 1.0, 1.0, 1.0, tuple(votes), ruling.id)
    return Decision([verdict], [])


def _majority(votes: Sequence[Vote], recipe: Recipe, belief: Belief) -> Decision:
    if not votes:
        return Decision([], [])
    for_first = [vote.strength for vote in votes if vote.strength > 0]
    for_second = [-vote.strength for vote in votes if vote.strength < 0]
    if not for_first and not for_second:
        bad = sum(vote.both_bad for vote in votes)
        return Decision([], [Drop.BOTH_BAD if 2 * bad >= len(votes) else Drop.TIE])
    lead = abs(len(for_first) - len(for_second))
    if lead < recipe.minimum_margin:
        return Decision([], [Drop.NO_MAJORITY])
    return _preference_for(len(for_first) > len(for_second), lead / len(votes), votes, recipe, belief)


def _decide_by_belief(votes: Sequence[Vote], recipe: Recipe, belief: Belief) -> Decision:
    """Chooses the more probable side, whatever the majority. The row's weight is the lead in probability."""
    if not votes:
        return Decision([], [])
    if belief.neither > max(belief.first, belief.second):
        bad = sum(vote.both_bad for vote in votes)
        return Decision([], [Drop.BOTH_BAD if 2 * bad >= len(votes) else Drop.TIE])
    if belief.first == belief.second:
        return Decision([], [Drop.NO_MAJORITY])
    return _preference_for(belief.first > belief.second, abs(belief.first - belief.second), votes, recipe, belief)


def _preference_for(first_won: bool, weight: float, votes: Sequence[Vote], recipe: Recipe, belief: Belief) -> Decision:
    sign = 1 if first_won else -1
    winning = [sign * vote.strength for vote in votes if sign * vote.strength > 0]
    strength = sum(winning) / len(winning) if winning else 1.0  # chosen against every vote: counts as slightly better
    if strength < recipe.minimum_strength:
        return Decision([], [Drop.WEAK])
    soft_label = belief.soft_label(first_won=first_won)
    if 100 * soft_label < recipe.minimum_confidence:
        return Decision([], [Drop.UNSURE])
    return Decision([Verdict(first_won, strength, weight, soft_label, belief.decided, tuple(votes))], [])


def _each(votes: Sequence[Vote], recipe: Recipe, belief: Belief) -> Decision:
    good = [vote for vote in votes if abs(vote.strength) >= recipe.minimum_strength]
    dropped = [
        Drop.BOTH_BAD if vote.both_bad else Drop.TIE if vote.is_tie else Drop.WEAK
        for vote in votes
        if abs(vote.strength) < recipe.minimum_strength
    ]
    return Decision(
        [
            Verdict(
                vote.strength > 0,
                float(abs(vote.strength)),
                1 / len(good),
                belief.soft_label(first_won=vote.strength > 0),
                belief.decided / len(good),
                (vote,),
            )
            for vote in good
        ],
        dropped,
    )
