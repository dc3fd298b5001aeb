"""What every row type declares: its columns, which judgments make its rows, and how. One module of this package declares each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.datasets.rows.chat_encoding import Turn
from apps.datasets.rows.columns import Layout
from apps.datasets.rows.divergence import Sides
from apps.datasets.selection.run_votes import RunDecision, RunVote
from apps.datasets.selection.votes import Verdict

Messages = tuple[list[bytes], ...]
"""A list of encoded messages for each of the layout's message columns."""
RunCorrection = tuple[int, bytes]
"""A step, and the better action there as an encoded message."""


@dataclass(frozen=True)
class PairRule:
    """How a verdict on two runs of a task becomes a row."""

    sides: Callable[[Sequence[Turn], Sequence[Turn]], Sides]
    """The messages, of the chosen run and the rejected one. Raises Unusable."""
    about: Callable[[Verdict, Sides], dict[str, Any]]
    """The columns that only this row type has."""


@dataclass(frozen=True)
class RunRule:
    """How the votes on a single run become rows."""

    decide: Callable[[Sequence[RunVote], int, int], RunDecision]
    """Of the votes, the smallest lead that the recipe asks for, and how many steps the run has."""
    messages: Callable[[Sequence[Turn], RunCorrection | None], Messages]
    """Raises Unusable."""
    divides_weight: bool = False
    """Whether rows made of each judgment of one run share a weight of 1 among them."""


@dataclass(frozen=True)
class RowType:
    """A kind of row that a version can hold."""

    name: str
    title: str
    """On pages."""
    layout: Layout
    queue_kinds: tuple[str, ...]
    """The kinds of queues whose judgments make such rows. Not the model's enumeration: a second process reads pairs without Django's models."""
    tags: tuple[str, ...]
    """On the dataset card."""
    pairs: PairRule | None = None
    runs: RunRule | None = None
    contents: Callable[[Mapping[str, Any]], list[str]] | None = None
    """What the card counts of a row's columns; None where it has figures on pairs instead."""
    trainer: str = ""
    """TRL's trainer that reads such rows as they are, by the first part of its name."""


def whole(turns: Sequence[Turn]) -> list[bytes]:
    """Every message up to the last turn. Messages after it are left out: nothing follows them that could be better or worse."""
    return [message for turn in turns for message in (*turn.context, turn.message)]
