"""The declaration of a row type: its columns, which judgments make its rows, and how. Each module of this package declares one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from apps.datasets.rows.chat_encoding import Turn
from apps.datasets.rows.divergence import Sides
from apps.datasets.selection.trajectory_votes import TrajectoryDecision, TrajectoryVote
from apps.datasets.selection.votes import Verdict
from contract.rows.declaration import Column, Kind, extra_columns, message_columns

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
    """The columns of a row type's files: lists of messages, `tools`, then metadata."""

    row: type
    """The contract's declaration of the row."""

    @property
    def messages(self) -> tuple[str, ...]:
        return message_columns(self.row)

    @property
    def metadata(self) -> tuple[Column, ...]:
        return extra_columns(self.row)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Parquet schema, with the features of `datasets` in its metadata."""
        return pa.schema(
            [
                *((name, pa.list_(pa.json_())) for name in self.messages),
                ("tools", pa.string()),
                *((name, ARROW[kind]) for name, kind in self.metadata),
            ],
            metadata={"huggingface": json.dumps({"info": {"features": self._features()}})},
        )

    def _features(self) -> dict[str, Any]:
        """The columns as `datasets` features, so that messages load as objects."""
        return {
            **{name: {"feature": {"_type": "Json"}, "_type": "List"} for name in self.messages},
            "tools": _value("text"),
            **{name: _feature(kind) for name, kind in self.metadata},
        }


def _feature(kind: str) -> dict[str, Any]:
    return _value(kind) if kind in DTYPES else {"feature": _value(kind.removesuffix("s")), "_type": "List"}


def _value(kind: str) -> dict[str, str]:
    return {"dtype": DTYPES[kind], "_type": "Value"}


Messages = tuple[list[bytes], ...]
"""A list of encoded messages for each of the layout's message columns."""
StepCorrection = tuple[int, bytes]
"""A step, and the corrected action as an encoded message."""


@dataclass(frozen=True)
class PairRule:
    """How a verdict on two trajectories of a task becomes a row."""

    sides: Callable[[Sequence[Turn], Sequence[Turn]], Sides]
    """Makes the messages from the chosen and the rejected trajectory. Raises Unusable."""
    metadata: Callable[[Verdict, Sides], dict[str, Any]]
    """The columns specific to this row type."""


@dataclass(frozen=True)
class TrajectoryRule:
    """How the votes on a single trajectory become rows."""

    decide: Callable[[Sequence[TrajectoryVote], int, int], TrajectoryDecision]
    """Takes the votes, the recipe's minimum margin, and the trajectory's number of steps."""
    messages: Callable[[Sequence[Turn], StepCorrection | None], Messages]
    """Makes the row's messages. Raises Unusable."""
    divides_weight: bool = False
    """Whether the rows made from each judgment of one trajectory share a total weight of 1."""


@dataclass(frozen=True)
class RowType:
    """A kind of row that a version can hold."""

    name: str
    title: str
    """Title on pages."""
    layout: Layout
    queue_kinds: tuple[str, ...]
    """Kinds of queues whose judgments make such rows. Not the model's enum, since the pair-reader process doesn't load Django's models."""
    tags: tuple[str, ...]
    """Tags on the dataset card."""
    pairs: PairRule | None = None
    trajectories: TrajectoryRule | None = None
    contents: Callable[[Mapping[str, Any]], list[str]] | None = None
    """What the card counts in a row's columns; None if it has figures on pairs instead."""
    trainer: str = ""
    """Name prefix of the TRL trainer that reads such rows as they are."""


def whole(turns: Sequence[Turn]) -> list[bytes]:
    """Every message up to the last turn. Messages after it are left out, since no action follows them."""
    return [message for turn in turns for message in (*turn.context, turn.message)]
