"""The files of a version: JSON Lines and Parquet for each split, written once and hashed while written.

Writing, hashing, and compressing release the GIL, so a second thread does them while the next rows are made.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from apps.common.quantities import size
from apps.datasets.models import Split
from apps.datasets.rows.chat_encoding import encode
from apps.datasets.rows.row_type import Layout
from contract import jsontext

ROW_GROUP_BYTES: Final = 4 * 1024 * 1024
"""Bytes of JSON per row group. A split holds several times this in memory before it's written."""


class Row(NamedTuple):
    """One row, in the order of its layout."""

    messages: tuple[list[bytes], ...]
    """The encoded messages of each message column, at least one per column."""
    tools: bytes
    """A JSON string that contains a JSON list."""
    metadata: dict[str, Any]
    """The remaining columns, in the layout's order."""


class TooLarge(ValueError):
    """A version's rows exceed the size limit."""


class Room:
    """The limit on the total size of a version's splits, in bytes of JSON Lines.

    Rows repeat shared content: each corrected step of a trajectory includes all steps before it, and each pair both of its trajectories.
    """

    def __init__(self, max_bytes: int) -> None:
        self.most = self.left = max_bytes

    def take(self, count: int) -> None:
        """Use up `count` bytes. Raises TooLarge."""
        self.left -= count
        if self.left < 0:
            raise TooLarge(
                f"The rows take more than {size(self.most)}, the most that a version may have. Each row repeats the whole chat "
                "before it, so long trajectories with many judgments multiply. Choose fewer queues, or another row type."
            )


class FileInfo(NamedTuple):
    """Size, hash, and row count of a finished file."""

    path: Path
    rows: int
    bytes: int
    sha256: str


class SplitFiles:
    """Writes the rows of one split to `<split>.jsonl` and `<split>.parquet`, group by group, in a folder that belongs to this attempt."""

    def __init__(self, folder: Path, split: Split, layout: Layout, writing: Executor, room: Room) -> None:
        self.split = split
        self.layout = layout
        self.rows = 0
        self._jsonl = folder / f"{split.value}.jsonl"
        self._parquet = folder / f"{split.value}.parquet"
        self._lines = self._jsonl.open("wb", buffering=1024 * 1024)
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._table = pq.ParquetWriter(
            self._parquet,
            layout.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            write_statistics=False,
        )
        self._writing = writing
        self._room = room
        self._waiting: list[tuple[bytes, Row]] = []
        self._waiting_bytes = 0
        self._written: Future[None] | None = None

    def add(self, row: Row) -> int:
        """Add a row and return its number. Raises TooLarge, and errors from writing earlier rows."""
        line = self._line(row)
        self._room.take(len(line))
        self._waiting.append((line, row))
        self._waiting_bytes += len(line)
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._submit()
        self.rows += 1
        return self.rows - 1

    def close(self) -> None:
        """Close the files. Unfinished ones are invalid; their folder is deleted. No writer thread may be active."""
        self._lines.close()
        self._table.close()

    def finish(self) -> dict[str, FileInfo]:
        """Close both files and return their facts by format. Raises errors from writing rows."""
        self._submit()
        self._settle()
        self.close()
        return {
            "jsonl": FileInfo(self._jsonl, self.rows, self._bytes, self._hash.hexdigest()),
            "parquet": FileInfo(self._parquet, self.rows, self._parquet.stat().st_size, sha256_of(self._parquet)),
        }

    def _submit(self) -> None:
        """Hand the pending rows to the writer thread. At most one group is being filled and one being written."""
        self._settle()
        if self._waiting:
            self._written = self._writing.submit(self._write, self._waiting)
        self._waiting, self._waiting_bytes = [], 0

    def _settle(self) -> None:
        if self._written:
            self._written.result()
        self._written = None

    def _write(self, group: list[tuple[bytes, Row]]) -> None:
        lines = b"".join(line for line, _ in group)
        self._bytes += len(lines)
        self._hash.update(lines)
        self._lines.write(lines)
        self._table.write_table(self._arrow([row for _, row in group]))

    def _line(self, row: Row) -> bytes:
        lists = row.messages
        if self.rows == 0:
            # `datasets` infers column types from the file's first rows. Messages with different keys get its Json type,
            # which supports mixed tool calls; a file that begins with plain chats would get a fixed struct instead.
            lists = tuple(map(_marked, lists))
        pairs = zip(self.layout.messages, lists, strict=True)
        messages = b",".join(b'"%b":[%b]' % (name.encode(), b",".join(encoded)) for name, encoded in pairs)
        return b"".join((b"{", messages, b',"tools":', row.tools, b",", orjson.dumps(row.metadata)[1:], b"\n"))

    def _arrow(self, rows: list[Row]) -> pa.Table:
        width, schema = len(self.layout.messages), self.layout.schema
        columns: list[pa.Array] = [_messages([row.messages[index] for row in rows]) for index in range(width)]
        columns.append(pa.array([json.loads(row.tools) for row in rows], pa.string()))
        columns += [pa.array([row.metadata[f.name] for row in rows], f.type) for f in list(schema)[width + 1 :]]
        return pa.Table.from_arrays(columns, schema=schema)


def _marked(messages: Sequence[bytes]) -> list[bytes]:
    """The same messages, with a null `name` in the first unless it has one."""
    first = jsontext.loads(messages[0])
    return [encode({**first, "name": first.get("name")}, keep_surrogates=True), *messages[1:]]


def _messages(lists: Sequence[Sequence[bytes]]) -> pa.Array:
    """Lists of encoded messages as an Arrow column, without decoding any."""
    flat = [message for messages in lists for message in messages]
    texts = pa.StringArray.from_buffers(len(flat), _offsets(map(len, flat)), pa.py_buffer(b"".join(flat)))
    ends = pa.Array.from_buffers(pa.int32(), len(lists) + 1, [None, _offsets(map(len, lists))])
    return pa.ListArray.from_arrays(ends, pa.ExtensionArray.from_storage(pa.json_(), texts))


def _offsets(lengths: Iterable[int]) -> pa.Buffer:
    """Arrow's offsets: the start of each value and the end of the last."""
    return pa.py_buffer(array("i", accumulate(lengths, initial=0)))


def sha256_of(path: Path) -> str:
    """Hex digest of a file, read in chunks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(sums: dict[Split, str]) -> str:
    """SHA-256 of the output of `sha256sum train.jsonl validation.jsonl test.jsonl`, so that anyone can check it with two commands."""
    listing = "".join(f"{sums[split]}  {split.value}.jsonl\n" for split in Split)
    return hashlib.sha256(listing.encode()).hexdigest()
