"""Converts Parquet files, the usual format of published data sets, to JSON Lines: one line per row.

Arrow gives all objects in a column the same keys and fills missing ones with null, so nulls inside rows are dropped:
`{"name": "look", "arguments": {"path": "a", "query": null}}` was `{"path": "a"}` when it was written.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterator
from typing import IO, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from apps.ingest.files.conversion import Pieces, Unusable

PARQUET = b"PAR1"
ROWS = 16
"""Rows unpacked at once: whole row groups may be gigabytes, and a single long trajectory megabytes."""

PAGE_BYTES = 1 << 20
"""Bytes read from a column at a time, instead of its whole part of the row group."""

BATCH_BYTES = 64 << 20
"""Limit for the rows unpacked at once, estimated from the average row size: wide rows are unpacked one by one."""

MAX_VALUES = 16 << 20
"""Maximum values of a column in a row group. Equal values take no space, so a kilobyte can hold billions in one row."""

DICTIONARY_BYTES = 2 << 20
DICTIONARY_RATIO = 50
"""A column with a dictionary larger than this in the file, or an unpacked size above this ratio, stays dictionary-encoded,
since many rows may refer to one long value. Other columns are decoded, which is ten times as fast."""


class Table(Pieces):
    """Reads a Parquet file a few rows at a time."""

    def __init__(self, file: IO[bytes], size: int, passed: Callable[[int], None]) -> None:
        """`passed` is called with about how many of the file's `size` bytes have been read. Raises Unusable."""
        try:
            metadata = pq.read_metadata(file)
            _refuse_repeated_names(metadata.schema.to_arrow_schema().names)
            file.seek(0)
            table = pq.ParquetFile(
                pa.PythonFile(file, mode="r"),
                metadata=metadata,
                buffer_size=PAGE_BYTES,
                pre_buffer=False,
                read_dictionary=sorted(_heavy_columns(metadata)),
            )
        except (pa.ArrowException, OSError) as error:
            raise _damaged(error) from None
        super().__init__(_lines(table, size, passed))


def _lines(table: Any, size: int, passed: Callable[[int], None]) -> Iterator[bytes]:
    done, total = 0, max(table.metadata.num_rows, 1)
    at_once = 1 if _heavy_columns(table.metadata) else ROWS
    try:
        for batch in table.iter_batches(batch_size=_rows_at_once(table.metadata), use_threads=False):
            done += batch.num_rows
            passed(size * done // total)
            for start in range(0, batch.num_rows, at_once):
                yield from _as_json(batch.slice(start, at_once))
    except MemoryError:  # includes Arrow's, which is a subclass
        raise Unusable("a Parquet file with a row that doesn't fit in memory. Write shorter values") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(error) from None


def _as_json(batch: Any) -> Iterator[bytes]:
    try:
        for row in batch.to_pylist(maps_as_pydicts="lossy"):
            yield orjson.dumps(_without_nulls(row), default=_as_json_value, option=orjson.OPT_NON_STR_KEYS) + b"\n"
    except UnicodeDecodeError:
        raise  # the file is damaged
    except (OverflowError, TypeError, ValueError) as error:  # a date after the year 9999, or bytes as keys
        raise Unusable(
            f"a Parquet file with a value that JSON can't have ({error}). Write its column as text"
        ) from None


def _row_groups(metadata: Any) -> Iterator[Any]:
    yield from map(metadata.row_group, range(metadata.num_row_groups))


def _columns(group: Any) -> Iterator[Any]:
    yield from map(group.column, range(group.num_columns))


def _heavy_columns(metadata: Any) -> set[str]:
    """The columns whose values may be much larger than their encoded size in the file."""
    return {
        column.path_in_schema
        for group in _row_groups(metadata)
        for column in _columns(group)
        if column.physical_type == "BYTE_ARRAY"
        and column.has_dictionary_page
        and column.total_uncompressed_size > DICTIONARY_BYTES
        and (
            column.data_page_offset - column.dictionary_page_offset > DICTIONARY_BYTES
            or column.total_uncompressed_size > DICTIONARY_RATIO * column.total_compressed_size
        )
    }


def _rows_at_once(metadata: Any) -> int:
    """How many rows fit into memory together. Raises Unusable if a single one may not."""
    widest = 1
    for group in _row_groups(metadata):
        values = max((column.num_values for column in _columns(group)), default=0)
        if values > MAX_VALUES:
            raise Unusable(
                f"a Parquet file with {values:,} values of one column in a row group, where {MAX_VALUES:,} fit. "
                "Write it with smaller row groups"
            )
        widest = max(widest, max(group.total_byte_size, 8 * values) // max(group.num_rows, 1))
    return max(1, min(ROWS, BATCH_BYTES // widest))


def _refuse_repeated_names(names: list[str]) -> None:
    """A record has one value of a name, so one of the columns would be lost."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise Unusable(f"a Parquet file with several columns named {repeated[0][:80]!r}. Rename them")


def _without_nulls(value: Any) -> Any:
    if type(value) is dict:
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if type(value) is list else value


def _as_json_value(value: Any) -> str:
    """Bytes, which are mostly images, as base64; decimals, durations, and the like as text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _damaged(error: Exception) -> Unusable:
    return Unusable(f"a Parquet file that is damaged or cannot be read ({str(error).splitlines()[0][:200]})")
