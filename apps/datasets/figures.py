"""The statistics of a dataset card, accumulated row by row while a version is built."""

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
from apps.datasets.selection.pairs import Pair
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
    """Agreement on pairs, over the judgments that the recipe counts: among people and, if models or rules judged too, among all annotators.

    Accumulated pair by pair. Only counts of identically judged pairs are kept, so memory doesn't grow with the number of pairs.
    """

    def __init__(self, machines: Collection[UUID] = ()) -> None:
        """`machines`: the annotators that are models or rules."""
        self.machines = machines
        self.strengths: dict[str, Counter[tuple[int, ...]]] = {"people": Counter(), "all": Counter()}
        self.have_judged: set[bool] = set()
        """Who has judged so far: True for models and rules, False for people."""

    def add(self, votes: Sequence[Vote]) -> None:
        """Add the votes of different annotators on one pair."""
        judged = {vote.annotator: vote.strength for vote in votes}
        self.have_judged.update(annotator in self.machines for annotator in judged)
        self.strengths["all"][_pattern(judged.values())] += 1
        self.strengths["people"][
            _pattern(strength for annotator, strength in judged.items() if annotator not in self.machines)
        ] += 1

    def to_json(self) -> dict[str, Any]:
        """For people and for all: raw agreement, Krippendorff's alphas, and Fleiss' kappa, in the format of `agreement.to_json`."""
        data = {}
        for among, is_reported in (("people", self.have_judged != {True}), ("all", True in self.have_judged)):
            if is_reported:
                figures = agreement(self.strengths[among].elements())
                data[among] = {figure.name: to_json(getattr(figures, figure.name)) for figure in fields(figures)}
        return data


def _pattern(strengths: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(strengths))


@dataclass
class Figures:
    """Counts of judgments, pairs, and rows. Keeps a few numbers per row in memory, never its text."""

    pairs: int = 0
    judgments: Counter[UUID] = field(default_factory=Counter)
    """Judgments by annotator."""
    strengths: Counter[str] = field(default_factory=Counter)
    left: int = 0
    sided: int = 0
    """Judgments that preferred a side and recorded which side was on the left."""
    dropped: Counter[Drop] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    """Rows by split."""
    tasks: dict[str, set[UUID]] = field(default_factory=dict)
    chosen_policies: Counter[str] = field(default_factory=Counter)
    rejected_policies: Counter[str] = field(default_factory=Counter)
    environments: Counter[str] = field(default_factory=Counter)
    chosen: Side = field(default_factory=Side)
    rejected: Side = field(default_factory=Side)
    longer_chosen: int = 0
    same_length: int = 0
    failed_pairs: int = 0
    """Rows of two trajectories that failed."""
    agreement: Agreement = field(default_factory=Agreement)
    runs: int = 0
    """Single trajectories that were judged."""
    policies: Counter[str] = field(default_factory=Counter)
    """Policies of rows made from one trajectory."""
    whole: Side = field(default_factory=Side)
    """Lengths of rows made from one trajectory."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Counts of the labels or sources of rows other than preferences."""

    def count_votes(self, votes: list[Vote]) -> None:
        """Add the counted votes on one pair."""
        self.pairs += bool(votes)
        for vote in votes:
            self.judgments[vote.annotator] += 1
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
        self.judgments.update(annotators)

    def count_trajectory_row(
        self, messages: list[bytes], *, split: str, task: UUID, environment: str, policy: str
    ) -> None:
        """Add one row made from a single trajectory."""
        self.rows[split] += 1
        self.tasks.setdefault(split, set()).add(task)
        self.environments[environment] += 1
        self.policies[policy] += 1
        self.whole.add(messages)

    def count_row(self, sides: Sides, pair: Pair, *, split: str, policies: tuple[str, str]) -> None:
        """Add one row made from a pair."""
        task, environment = pair.task.id, pair.task.environment
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
        self.failed_pairs += pair.both_failed


def spread(values: array[int]) -> dict[str, int]:
    """Minimum, median, 90th percentile (nearest rank), and maximum; zeros if there are no values."""
    ordered = sorted(values) or [0]
    last = len(ordered) - 1
    return {
        "min": ordered[0],
        "median": ordered[last // 2],
        "p90": ordered[round(last * 0.9)],
        "max": ordered[-1],
    }


def share(successes: int, trials: int) -> dict[str, Any]:
    """A proportion with its 95% interval; nulls if there were no trials."""
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
    """A row of the card's agreement table."""

    whose: str
    """The group whose judgments these are, as text."""
    raw: Mapping[str, Any]
    alpha: Mapping[str, Any]
    level: str
    """The alpha's level of measurement."""


def agreement_rows(card: Mapping[str, Any]) -> list[AgreementRow]:
    """A card's agreement, people first. Cards of old releases hold one figure for all, without an interval."""
    agreement = card.get("agreement", {})
    if "observed" in agreement:
        both = {"items": agreement["pairs"], "low": None, "high": None}
        raw = {**both, "value": agreement["observed"], "undefined_because": "no item has two judgments yet"}
        alpha = {**both, "value": agreement["alpha"], "undefined_because": "every judgment is the same"}
        return [AgreementRow("all judgments", raw, alpha, "interval")]
    only = "judgments of models and rules"
    groups = {
        "people": "people's judgments",
        "all": "all judgments, with models and rules" if "people" in agreement else only,
    }
    return [
        AgreementRow(groups[among], agreement[among]["raw"], agreement[among]["nominal"], "nominal")
        for among in groups
        if among in agreement
    ]
