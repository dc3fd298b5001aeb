"""The columns of a row type in Arrow, and in the words of `datasets`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

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
