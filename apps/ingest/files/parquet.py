"""Parquet files, as most data sets are published, as JSON Lines: a row a line.

Arrow gives every object of a column the same keys and fills those that an object lacks with null, so nulls inside rows are left out:
`{"name": "look", "arguments": {"path": "a", "query": null}}` was `{"path": "a"}` when it was written.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import IO, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from apps.ingest.files.conversion import Pieces, Unusable

PARQUET = b"PAR1"
ROWS = 16
"""Rows unpacked at once: whole row groups may hold gigabytes, and a single long run megabytes."""

PAGE_BYTES = 1 << 20
"""Read at a time from a column, instead of all that a row group has of it."""


class Table(Pieces):
    """Reads the file some rows at a time."""

    def __init__(self, file: IO[bytes], size: int, passed: Callable[[int], None]) -> None:
        """`passed` is told how many of the `size` bytes of the file, about, have been read. Raises Unusable."""
        try:
            table = pq.ParquetFile(pa.PythonFile(file, mode="r"), buffer_size=PAGE_BYTES, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(error) from None
        super().__init__(_lines(table, size, passed))


def _lines(table: Any, size: int, passed: Callable[[int], None]) -> Iterator[bytes]:
    done, total = 0, max(table.metadata.num_rows, 1)
    try:
        for batch in table.iter_batches(batch_size=ROWS, use_threads=False):
            rows = batch.to_pylist(maps_as_pydicts="lossy")
            done += len(rows)
            passed(size * done // total)
            for row in rows:
                yield orjson.dumps(_without_nulls(row), default=_spelled, option=orjson.OPT_NON_STR_KEYS) + b"\n"
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(error) from None


def _without_nulls(value: Any) -> Any:
    if type(value) is dict:
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if type(value) is list else value


def _spelled(value: Any) -> str:
    """Bytes, which are pictures mostly, in base64; decimals, durations and the like as text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _damaged(error: Exception) -> Unusable:
    return Unusable(f"a Parquet file that is damaged or cannot be read ({str(error).splitlines()[0][:200]})")
