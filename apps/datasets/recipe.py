"""What to freeze and by which rules. The same recipe over the same judgments gives identical bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final

from apps.annotation.models import Annotator, Queue
from apps.common.ids import parsed_id
from apps.datasets.models import Split
from apps.datasets.rows import ROW_TYPES

CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "row_type": tuple(ROW_TYPES),
    "judgments": ("majority", "each"),
    "aggregation": ("votes", "dawid_skene", "glad"),
    "adjudicated": ("win", "ignore"),
    "ties": ("count", "drop"),
    "both_bad": ("count", "drop"),
    "failed_pairs": ("keep", "leave_out"),
    "flagged": ("keep", "leave_out"),
    "surrogates": ("replace", "keep"),
}
KINDS: Final = tuple(Annotator.Kind.values)
DEFAULT_SHARES: Final = {Split.TRAIN.value: 80, Split.VALIDATION.value: 10, Split.TEST.value: 10}
MAX_SEED: Final = 2**31 - 1


class BadRecipe(ValueError):
    """An invalid recipe: which field, and what was expected."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The rules of one version, stored with it."""

    queues: tuple[str, ...]
    """Ids of the source queues, sorted."""
    row_type: str = "preference"
    """The row type; see `rows`. Each type is made only from queues of certain kinds."""
    judgments: str = "majority"
    """majority: one row per pair, for the side that more annotators preferred. each: one row per judgment."""
    minimum_margin: int = 1
    """With majority: the minimum lead of the winner, in votes."""
    aggregation: str = "votes"
    """How the row's `soft_label` is estimated: the probability that the chosen trajectory is better. votes: its share of the votes that prefer a
    trajectory. dawid_skene: from a confusion matrix per annotator. glad: from annotator skill and pair difficulty.
    With the last two they also decide which trajectory a majority row chooses.
    """
    adjudicated: str = "win"
    """How a reviewer's decisions count. win: on a pair, it makes the only row, whatever the votes; on a trajectory, overruled judgments are ignored.
    ignore: decisions have no effect.
    """
    minimum_confidence: int = 50
    """With majority: minimum soft label of a row, in percent."""
    minimum_strength: int = 1
    """1 slightly, 2 clearly, 3 much better; with majority, the mean over those who voted for the winner."""
    ties: str = "count"
    """A tie never makes a row. count: it's included in the card's figures and lowers a row's weight. drop: it's ignored."""
    both_bad: str = "count"
    """How "both bad" judgments count; the choices are those of `ties`."""
    failed_pairs: str = "keep"
    """Pairs of two trajectories whose outcomes are failures: keep them, or leave_out. Whatever people prefer about a failure, often that it ends sooner,
    a policy may learn to do.
    """
    annotator_kinds: tuple[str, ...] = KINDS
    """The kinds of annotators whose judgments count: people, models, rules. Rows and card name the kind."""
    without_annotators: tuple[str, ...] = ()
    """Ids of annotators whose judgments are excluded."""
    flagged: str = "keep"
    """How flagged items count. keep: like the others. leave_out: items that are flagged when the version is created are excluded."""
    without_items: tuple[int, ...] | None = None
    """The sorted ids of excluded items; None for those that `flagged` excludes now. Set when the version is created, so later changes of flags have no
    effect."""
    train: int = DEFAULT_SHARES["train"]
    validation: int = DEFAULT_SHARES["validation"]
    test: int = DEFAULT_SHARES["test"]
    """Shares in percent for tasks without a split; the three add up to 100."""
    seed: int = 0
    """Determines the order in which new tasks are assigned to splits."""
    surrogates: str = "replace"
    """Lone surrogates, which no tokenizer can encode: replace them by U+FFFD, or keep their JSON escapes."""
    until: datetime | None = None
    """Cutoff: only judgments made by this time and not withdrawn by then. Set when the version is created."""

    def __post_init__(self) -> None:
        if not self.queues:
            raise BadRecipe("queues", "Choose at least one queue.")
        for name in ("queues", "without_annotators"):
            object.__setattr__(self, name, tuple(sorted({_uuid(name, value) for value in getattr(self, name)})))
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise BadRecipe(name, f"{getattr(self, name)!r} is unknown; expected one of {', '.join(choices)}.")
        if not self.annotator_kinds or not set(self.annotator_kinds) <= set(KINDS):
            raise BadRecipe("annotator_kinds", f"Choose at least one of {', '.join(KINDS)}.")
        object.__setattr__(self, "annotator_kinds", tuple(kind for kind in KINDS if kind in self.annotator_kinds))
        if self.without_items is not None:
            if any(type(item) is not int for item in self.without_items):
                raise BadRecipe("without_items", "These are ids of items: whole numbers.")
            object.__setattr__(self, "without_items", tuple(sorted(set(self.without_items))))
        _check_whole_number(self, "minimum_margin", 1, 1000)
        _check_whole_number(self, "minimum_confidence", 50, 100)
        _check_whole_number(self, "minimum_strength", 1, 3)
        _check_whole_number(self, "seed", 0, MAX_SEED)
        for split in Split.values:
            _check_whole_number(self, split, 0, 100)
        if sum(self.shares.values()) != 100:
            raise BadRecipe("train", f"The shares add up to {sum(self.shares.values())} %; expected 100 %.")
        if self.until is not None and self.until.tzinfo is None:
            raise BadRecipe("until", "The time has no time zone; write it like 2026-01-31T12:00:00Z.")

    @property
    def shares(self) -> dict[Split, int]:
        """Percent of the tasks in each split."""
        return {split: getattr(self, split.value) for split in Split}

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        return {
            **values,
            "queues": list(self.queues),
            "annotator_kinds": list(self.annotator_kinds),
            "without_annotators": list(self.without_annotators),
            "without_items": None if self.without_items is None else list(self.without_items),
            "until": self.until.isoformat() if self.until else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Recipe:
        """Decode a stored recipe. Raises BadRecipe."""
        rule_names = {field.name for field in fields(cls)}
        if unknown := sorted(set(data) - rule_names):
            raise BadRecipe(unknown[0], f"There is no such rule; known rules: {', '.join(sorted(rule_names))}.")
        values = dict(data)
        if isinstance(values.get("until"), str):
            try:
                values["until"] = datetime.fromisoformat(values["until"])
            except ValueError:
                raise BadRecipe(
                    "until", f"{values['until']!r} isn't a time; write it like 2026-01-31T12:00:00Z."
                ) from None
        for name in ("queues", "annotator_kinds", "without_annotators", "without_items"):
            if name in values and not (name == "without_items" and values[name] is None):
                if not isinstance(values[name], list | tuple):
                    raise BadRecipe(name, f"{values[name]!r} isn't a list.")
                values[name] = tuple(values[name])
        return cls(**{"queues": (), **values})


def check_kinds(recipe: Recipe, kinds: Iterable[str]) -> None:
    """Raises BadRecipe if a queue of one of these kinds makes no rows of the recipe's type."""
    fitting = ROW_TYPES[recipe.row_type].queue_kinds
    if unfit := sum(kind not in fitting for kind in kinds):
        kind_labels = " or ".join(f"“{Queue.Kind(kind).label.lower()}”" for kind in fitting)
        raise BadRecipe(
            "queues", f"{unfit} of the queues can't make such rows, which come from queues where people {kind_labels}."
        )


def _uuid(field: str, value: object) -> str:
    if pk := parsed_id(value):
        return str(pk)
    raise BadRecipe(field, f"{value!r} isn't an id.")


def _check_whole_number(recipe: Recipe, name: str, low: int, high: int) -> None:
    value = getattr(recipe, name)
    if type(value) is not int or not low <= value <= high:
        raise BadRecipe(name, f"{value!r} is not a whole number from {low} to {high}.")
