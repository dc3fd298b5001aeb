"""What every row type declares: its columns, which judgments make its rows, and how. One module of this package declares each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from apps.datasets.rows.chat_encoding import Turn
from apps.datasets.rows.divergence import Sides
from apps.datasets.selection.run_votes import RunDecision, RunVote
from apps.datasets.selection.votes import Verdict
from contract.rows.declaration import Column, Kind, further_columns, message_columns

ARROW: dict[Kind, pa.DataType] = {
    "text": pa.string(),
    "number": pa.float64(),
    "count": pa.int64(),
    "flag": pa.bool_(),
    "texts": pa.list_(pa.string()),
    "numbers": pa.list_(pa.float64()),
    "flags": pa.list_(pa.bool_()),
}
DTYPES = {"text": "string", "number": "float64", "count": "int64", "flag": "bool"}


@dataclass(frozen=True)
class Layout:
    """What a row type's files hold: lists of messages, `tools`, then what is known of the row."""

    row: type
    """The contract's declaration of the row."""

    @property
    def messages(self) -> tuple[str, ...]:
        return message_columns(self.row)

    @property
    def about(self) -> tuple[Column, ...]:
        return further_columns(self.row)

    @cached_property
    def schema(self) -> pa.Schema:
        """As Parquet stores it, with the features of `datasets` in its metadata."""
        return pa.schema(
            [
                *((name, pa.list_(pa.json_())) for name in self.messages),
                ("tools", pa.string()),
                *((name, ARROW[kind]) for name, kind in self.about),
            ],
            metadata={"huggingface": json.dumps({"info": {"features": self._features()}})},
        )

    def _features(self) -> dict[str, Any]:
        """The columns in the words of `datasets`, so that messages come back as objects."""
        return {
            **{name: {"feature": {"_type": "Json"}, "_type": "List"} for name in self.messages},
            "tools": _value("text"),
            **{name: _feature(kind) for name, kind in self.about},
        }


def _feature(kind: str) -> dict[str, Any]:
    return _value(kind) if kind in DTYPES else {"feature": _value(kind.removesuffix("s")), "_type": "List"}


def _value(kind: str) -> dict[str, str]:
    return {"dtype": DTYPES[kind], "_type": "Value"}


Messages = tuple[list[bytes], ...]
"""A list of encoded messages for each of the layout's message columns."""
RunCorrection = tuple[int, bytes]
"""A step, and the better action there as an encoded message."""


@dataclass(frozen=True)
class PairRule:
    """How a verdict on two trajectories of a task becomes a row."""

    sides: Callable[[Sequence[Turn], Sequence[Turn]], Sides]
    """The messages, of the chosen trajectory and the rejected one. Raises Unusable."""
    about: Callable[[Verdict, Sides], dict[str, Any]]
    """The columns that only this row type has."""


@dataclass(frozen=True)
class RunRule:
    """How the votes on a single trajectory become rows."""

    decide: Callable[[Sequence[RunVote], int, int], RunDecision]
    """Of the votes, the smallest lead that the recipe asks for, and how many steps the trajectory has."""
    messages: Callable[[Sequence[Turn], RunCorrection | None], Messages]
    """Raises Unusable."""
    divides_weight: bool = False
    """Whether rows made of each judgment of one trajectory share a weight of 1 among them."""


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
