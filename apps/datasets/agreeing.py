"""How far those agree whose judgements of pairs a version holds: people and, where machines judged as well, all of them.

The figures are those of a queue's page of quality, over the judgements that the recipe counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple
from uuid import UUID

from apps.annotation.quality.agreement import agreement, to_json
from apps.datasets.selection.votes import Vote


class Agreement:
    """Gathers pair by pair: what is kept is how many pairs were judged alike, however many there are."""

    def __init__(self, machines: Collection[UUID] = ()) -> None:
        """`machines`: of the annotators, those that are models or rules."""
        self.machines = machines
        self.strengths: dict[str, Counter[tuple[int, ...]]] = {"people": Counter(), "all": Counter()}
        self.have_judged: set[bool] = set()
        """Machines (True) and people (False), so far."""

    def add(self, votes: Sequence[Vote]) -> None:
        """Add what different annotators said of one pair."""
        judged = {vote.annotator: vote.strength for vote in votes}
        self.have_judged.update(who in self.machines for who in judged)
        self.strengths["all"][_pattern(judged.values())] += 1
        self.strengths["people"][_pattern(said for who, said in judged.items() if who not in self.machines)] += 1

    def to_json(self) -> dict[str, Any]:
        """By whose judgements (people, all): raw agreement, Krippendorff's alphas and Fleiss' kappa, as `agreement.to_json` gives them."""
        found = {}
        for among, is_told in (("people", self.have_judged != {True}), ("all", True in self.have_judged)):
            if is_told:
                figures = agreement(self.strengths[among].elements())
                found[among] = {figure.name: to_json(getattr(figures, figure.name)) for figure in fields(figures)}
        return found


def _pattern(strengths: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(strengths))


class AgreementRow(NamedTuple):
    """A line of a card about agreement."""

    whose: str
    """Whose judgements these are, in words."""
    raw: Mapping[str, Any]
    alpha: Mapping[str, Any]
    level: str
    """Of the alpha."""


def rows_of(card: Mapping[str, Any]) -> list[AgreementRow]:
    """What a card says of agreement: of people first. Cards of long ago hold one figure for all, without an interval."""
    found = card.get("agreement", {})
    if "observed" in found:
        both = {"items": found["pairs"], "low": None, "high": None}
        raw = {**both, "value": found["observed"], "undefined_because": "no item has two judgements yet"}
        alpha = {**both, "value": found["alpha"], "undefined_because": "every judgement is the same"}
        return [AgreementRow("all judgements", raw, alpha, "interval")]
    only = "judgements of models and rules"
    words = {
        "people": "people’s judgements",
        "all": "all judgements, with models and rules" if "people" in found else only,
    }
    return [
        AgreementRow(words[among], found[among]["raw"], found[among]["nominal"], "nominal")
        for among in words
        if among in found
    ]
