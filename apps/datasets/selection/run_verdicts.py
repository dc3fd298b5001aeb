"""From what was said of single runs to rows, or to the reason why there is none. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple
from uuid import UUID

from apps.datasets.recipe import Recipe
from apps.datasets.selection.verdicts import Drop


@dataclass(frozen=True)
class RunVote:
    """One judgement of one run: an inspection of its steps, or a rating."""

    judgement: UUID
    annotator: UUID
    is_rating: bool
    opinion: int
    """+1 the run is accepted, −1 it is not, 0 neither."""
    first_error: int | None = None
    """Index of the first wrong step; −1 where somebody looked and found none; None where nobody looked."""
    labels: Mapping[int, int] = field(default_factory=dict)
    """Step -> −1, 0 or +1, as labelled by hand: what a first error filled in is not a label."""
    corrections: tuple[tuple[int, bytes, UUID | None], ...] = ()
    """(step, the better message as JSON, the policy that it was sampled from), in the order of steps."""


class RunVerdict(NamedTuple):
    """A row: what it says beyond the run's messages, and on whose word."""

    votes: tuple[RunVote, ...]
    weight: float
    about: dict[str, Any]
    """The columns that only this row type has."""
    correction: tuple[int, bytes, UUID | None] | None = None
    """The better action that ends or parts the row."""


class RunDecision(NamedTuple):
    """What the votes on one run come to."""

    verdicts: list[RunVerdict]
    dropped: list[Drop]


def latest_of_each(votes: Sequence[RunVote]) -> list[RunVote]:
    """Of each annotator's several judgements of one run (in different queues) the newest of a kind, oldest first: ids grow with time."""
    ordered = sorted(votes, key=lambda vote: vote.judgement)
    newest = {(vote.annotator, vote.is_rating): vote for vote in ordered}
    return sorted(newest.values(), key=lambda vote: vote.judgement)


def standing(votes: Sequence[tuple[RunVote, UUID | None]]) -> list[RunVote]:
    """From votes, each with the judgement of its item that a reviewer upheld: those upheld; else the newest of each annotator.

    What a reviewer overruled counts for nothing, also where the author of what they upheld is left out.
    """
    upheld = [vote for vote, stands in votes if vote.judgement == stands]
    return upheld or latest_of_each([vote for vote, stands in votes if stands is None])


def decide_run(votes: Sequence[RunVote], recipe: Recipe, *, steps: int) -> RunDecision:
    """Apply the recipe to the counted votes on one run of so many steps."""
    if not votes:
        return RunDecision([], [Drop.OVERRULED])
    groups = [[vote] for vote in votes] if recipe.judgements == "each" else [list(votes)]
    verdicts: list[RunVerdict] = []
    dropped: list[Drop] = []
    for group in groups:
        found = MAKERS[recipe.row_type](group, recipe, steps)
        verdicts += found.verdicts
        dropped += found.dropped
    if recipe.judgements == "each" and verdicts and recipe.row_type in ("steps", "unpaired"):
        verdicts = [verdict._replace(weight=1 / len(verdicts)) for verdict in verdicts]
    return RunDecision(verdicts, dropped)


def judged_steps(votes: Sequence[RunVote], recipe: Recipe, steps: int) -> RunDecision:
    """Each step's mean label, and the first error where more than half of those who looked agree on it."""
    labels: list[float | None] = []
    for step in range(steps):
        given = [vote.labels[step] for vote in votes if step in vote.labels]
        labels.append(round(fmean(given), 6) if given else None)
    looked = [vote.first_error for vote in votes if vote.first_error is not None]
    first_error = max(set(looked), key=looked.count) if looked else None
    if first_error is not None and 2 * looked.count(first_error) <= len(looked):
        first_error = None
    if first_error is None and not any(label is not None for label in labels):
        return RunDecision([], [Drop.NO_LABELS])
    about = {"step_labels": labels, "first_error": first_error}
    return RunDecision([RunVerdict(tuple(votes), 1.0, about)], [])


def unpaired(votes: Sequence[RunVote], recipe: Recipe, steps: int) -> RunDecision:
    """Desirable where more accept the run than not."""
    lead = sum(vote.opinion for vote in votes)
    if not any(vote.opinion for vote in votes):
        return RunDecision([], [Drop.NO_OPINION])
    if abs(lead) < recipe.minimum_margin:
        return RunDecision([], [Drop.NO_MAJORITY])
    return RunDecision([RunVerdict(tuple(votes), round(abs(lead) / len(votes), 6), {"label": lead > 0})], [])


def demonstrations(votes: Sequence[RunVote], recipe: Recipe, steps: int) -> RunDecision:
    """The run if it is accepted; and up to each annotator's first correction, that in place of what the policy did. Bad turns are not learnt."""
    verdicts = []
    lead = sum(vote.opinion for vote in votes)
    if lead >= recipe.minimum_margin:
        train = _not_bad(votes, steps)
        if any(train):
            about = {"train_turns": train, "origin": "accepted"}
            verdicts.append(RunVerdict(tuple(votes), 1.0, about))
    for vote in votes:
        if vote.corrections:
            correction = vote.corrections[0]
            train = [*_right_before(vote, correction[0]), True]
            about = {"train_turns": train, "origin": "corrected"}
            verdicts.append(RunVerdict((vote,), 1.0, about, correction))
    return RunDecision(verdicts, [] if verdicts else [Drop.NOT_ACCEPTED])


def step_preferences(votes: Sequence[RunVote], recipe: Recipe, steps: int) -> RunDecision:
    """Every correction is better than what the policy did there."""
    verdicts = [
        RunVerdict((vote,), 1.0, {"origin": "correction", "step": correction[0]}, correction)
        for vote in votes
        for correction in vote.corrections
    ]
    return RunDecision(verdicts, [] if verdicts else [Drop.NO_CORRECTION])


def _not_bad(votes: Sequence[RunVote], steps: int) -> list[bool]:
    """For each of the first steps whether nobody's labels, taken together, call it bad."""
    return [sum(vote.labels.get(step, 0) for vote in votes) >= 0 for step in range(steps)]


def _right_before(vote: RunVote, steps: int) -> list[bool]:
    """The same of one vote's first steps; what came after its first error is not learnt unless it was labelled by itself."""
    error = steps if vote.first_error is None or vote.first_error < 0 else vote.first_error
    return [good and (step < error or step in vote.labels) for step, good in enumerate(_not_bad([vote], steps))]


MAKERS = {
    "steps": judged_steps,
    "unpaired": unpaired,
    "demonstrations": demonstrations,
    "step_preferences": step_preferences,
}
