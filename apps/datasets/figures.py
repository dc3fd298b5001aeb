"""The figures of a dataset card, gathered row by row while a version is built."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple
from uuid import UUID

from apps.annotation.quality.agreement import agreement, to_json
from apps.common.proportions import wilson
from apps.datasets.rows.divergence import Sides
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.votes import Vote

STRENGTHS = {1: "slightly", 2: "clearly", 3: "much"}


@dataclass
class Side:
    """Lengths of all chosen, or all rejected, sides: messages and bytes of JSON."""

    messages: array[int] = field(default_factory=lambda: array("L"))
    sizes: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, messages: list[bytes]) -> None:
        self.messages.append(len(messages))
        self.sizes.append(sum(map(len, messages)))

    def to_json(self) -> dict[str, Any]:
        return {"messages": spread(self.messages), "bytes": spread(self.sizes)}


class Agreement:
    """How far those agree who judged pairs, over the judgments that the recipe counts: people and, where machines judged as well, all.

    Gathers pair by pair: what is kept is how many pairs were judged alike, however many there are."""

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
        """By whose judgments (people, all): raw agreement, Krippendorff's alphas and Fleiss' kappa, as `agreement.to_json` gives them."""
        found = {}
        for among, is_told in (("people", self.have_judged != {True}), ("all", True in self.have_judged)):
            if is_told:
                figures = agreement(self.strengths[among].elements())
                found[among] = {figure.name: to_json(getattr(figures, figure.name)) for figure in fields(figures)}
        return found


def _pattern(strengths: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(strengths))


@dataclass
class Figures:
    """Counts over judgments, pairs and rows. A few numbers a row stay in memory, never its text."""

    pairs: int = 0
    judgements: Counter[UUID] = field(default_factory=Counter)
    """By annotator."""
    strengths: Counter[str] = field(default_factory=Counter)
    left: int = 0
    sided: int = 0
    """Judgments that preferred a side, of which it is known which was the left one."""
    dropped: Counter[Drop] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    """By split."""
    tasks: dict[str, set[UUID]] = field(default_factory=dict)
    chosen_policies: Counter[str] = field(default_factory=Counter)
    rejected_policies: Counter[str] = field(default_factory=Counter)
    environments: Counter[str] = field(default_factory=Counter)
    chosen: Side = field(default_factory=Side)
    rejected: Side = field(default_factory=Side)
    longer_chosen: int = 0
    same_length: int = 0
    agreement: Agreement = field(default_factory=Agreement)
    runs: int = 0
    """Single trajectories that were judged."""
    policies: Counter[str] = field(default_factory=Counter)
    """Of rows made of one trajectory."""
    whole: Side = field(default_factory=Side)
    """Lengths of such rows."""
    kinds: Counter[str] = field(default_factory=Counter)
    """What rows other than preferences say, or where they come from."""

    def count_votes(self, votes: list[Vote]) -> None:
        """Add the counted votes on one pair."""
        self.pairs += bool(votes)
        for vote in votes:
            self.judgements[vote.annotator] += 1
            if vote.is_tie:
                self.strengths["both_bad" if vote.both_bad else "tie"] += 1
                continue
            self.strengths[STRENGTHS[abs(vote.strength)]] += 1
            if vote.first_was_left is not None:
                self.sided += 1
                self.left += (vote.strength > 0) == vote.first_was_left
        self.agreement.add(votes)

    def count_opinions(self, annotators: list[UUID]) -> None:
        """Add the counted judgments of one trajectory."""
        self.runs += 1
        self.judgements.update(annotators)

    def count_run_row(self, messages: list[bytes], *, split: str, task: UUID, environment: str, policy: str) -> None:
        """Add one row that was made of a single trajectory."""
        self.rows[split] += 1
        self.tasks.setdefault(split, set()).add(task)
        self.environments[environment] += 1
        self.policies[policy] += 1
        self.whole.add(messages)

    def count_row(self, sides: Sides, *, split: str, task: UUID, environment: str, policies: tuple[str, str]) -> None:
        """Add one row."""
        self.rows[split] += 1
        self.tasks.setdefault(split, set()).add(task)
        self.environments[environment] += 1
        self.chosen_policies[policies[0]] += 1
        self.rejected_policies[policies[1]] += 1
        self.chosen.add(sides.chosen)
        self.rejected.add(sides.rejected)
        longer = self.chosen.sizes[-1] - self.rejected.sizes[-1]
        self.longer_chosen += longer > 0
        self.same_length += longer == 0


def spread(values: array[int]) -> dict[str, int]:
    """Smallest, median, 90th percentile (nearest rank) and largest; zeros where there are none."""
    ordered = sorted(values) or [0]
    last = len(ordered) - 1
    return {
        "min": ordered[0],
        "median": ordered[last // 2],
        "p90": ordered[round(last * 0.9)],
        "max": ordered[-1],
    }


def share(successes: int, trials: int) -> dict[str, Any]:
    """A share with its 95 % interval; nulls where there were no trials."""
    if not trials:
        return {"count": 0, "of": 0, "share": None, "low": None, "high": None}
    low, high = wilson(successes, trials)
    return {
        "count": successes,
        "of": trials,
        "share": round(successes / trials, 4),
        "low": round(low, 4),
        "high": round(high, 4),
    }


class AgreementRow(NamedTuple):
    """A line of a card about agreement."""

    whose: str
    """Whose judgments these are, in words."""
    raw: Mapping[str, Any]
    alpha: Mapping[str, Any]
    level: str
    """Of the alpha."""


def agreement_rows(card: Mapping[str, Any]) -> list[AgreementRow]:
    """What a card says of agreement: of people first. Cards of long ago hold one figure for all, without an interval."""
    found = card.get("agreement", {})
    if "observed" in found:
        both = {"items": found["pairs"], "low": None, "high": None}
        raw = {**both, "value": found["observed"], "undefined_because": "no item has two judgments yet"}
        alpha = {**both, "value": found["alpha"], "undefined_because": "every judgment is the same"}
        return [AgreementRow("all judgments", raw, alpha, "interval")]
    only = "judgments of models and rules"
    words = {
        "people": "people’s judgments",
        "all": "all judgments, with models and rules" if "people" in found else only,
    }
    return [
        AgreementRow(words[among], found[among]["raw"], found[among]["nominal"], "nominal")
        for among in words
        if among in found
    ]
