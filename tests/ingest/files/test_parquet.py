"""Parquet files: rows are read a few at a time; damaged files are refused with a message."""

import datetime
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.ingest.files import parquet as reader
from apps.ingest.files.source import UnreadableFile, open_source
from tests.trajectories.uploads import MAX_BYTES, counts, imported, rows_of

CHAT = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "gone"}]


def parquet(*rows: dict[str, object], **options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), out, **options)
    return out.getvalue()


def test_a_row_is_a_record_and_what_arrow_filled_in_is_left_out():
    calls = [
        {"id": "1", "function": {"name": "look", "arguments": {"path": "a"}}},
        {"id": "2", "function": {"name": "find", "arguments": {"query": "b"}}},
    ]
    row = {"messages": [CHAT[0], {"role": "assistant", "tool_calls": calls}], "resolved": 1}
    assert rows_of(parquet(row, {"messages": CHAT})) == [row, {"messages": CHAT}]


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (b"\x89PNG", "iVBORw=="),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
        (2**63 - 1, 2**63 - 1),
        ("NUL \x00", "NUL \x00"),
    ],
)
def test_values_that_json_lacks_are_spelled_out(value, spelled):
    assert rows_of(parquet({"x": value})) == [{"x": spelled}]


@pytest.mark.parametrize(
    "values", [pa.array([10**9], pa.date32()), pa.array([[(b"a", 1)]], pa.map_(pa.binary(), pa.int64()))]
)
def test_values_that_neither_python_nor_json_can_have_are_refused(values):
    out = io.BytesIO()
    pq.write_table(pa.table({"x": values}), out)
    with pytest.raises(UnreadableFile, match="with a value that JSON can't have"):
        rows_of(out.getvalue())


def test_columns_of_one_name_are_refused():
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["prompt", "prompt"]), out)
    with pytest.raises(UnreadableFile, match="several columns named 'prompt'"):
        rows_of(out.getvalue())


def test_rows_are_numbered_over_all_row_groups_and_progress_is_that_of_the_file():
    body = parquet(*({"n": n} for n in range(100)), row_group_size=7)
    source = open_source(io.BytesIO(body), most_bytes=MAX_BYTES)
    rows = list(source.rows(limit=MAX_BYTES))
    assert [row.line for row in rows] == list(range(1, 101))
    assert json.loads(rows[99].body) == {"n": 99}
    assert source.bytes_read == len(body)


def test_a_row_group_is_never_in_memory_as_a_whole():
    rows = ({"text": f"{n}" + "x" * 200_000} for n in range(200))  # 40 MB in one row group, in pages of 8 rows
    body = parquet(*rows, use_dictionary=False, write_batch_size=8)
    before = pa.total_allocated_bytes()
    source = open_source(io.BytesIO(body), most_bytes=MAX_BYTES)
    assert max(pa.total_allocated_bytes() - before for _ in source.rows(limit=MAX_BYTES)) < 16 << 20


def test_what_is_damaged_is_said_to_be():
    body = parquet(*({"x": f"{n}" * 99} for n in range(1000)))
    for broken in (b"PAR1", body[:-30], body[:2000] + bytes(500) + body[2500:]):
        with pytest.raises(UnreadableFile, match="a Parquet file that is damaged or cannot be read"):
            rows_of(broken)


def test_a_bomb_is_stopped(monkeypatch):
    monkeypatch.setattr("apps.ingest.files.parquet.ROWS", 1000)
    body = parquet(*({"x": "x" * 100_000} for _ in range(200)))  # one dictionary entry
    with pytest.raises(UnreadableFile, match="Unpacks to more than"):
        list(open_source(io.BytesIO(body), most_bytes=1 << 20).rows(limit=MAX_BYTES))


@pytest.mark.django_db
def test_rows_that_are_no_runs_are_kept_with_their_numbers():
    row = {"messages": CHAT, "id": "a"}
    batch = imported(parquet(row, {**row, "messages": [{"role": "pirate", "content": "x"}]}, {**row, "id": "b"}))
    assert (batch.format, counts(batch)) == ("openai-chat", (2, 2, 0, 1))
    assert batch.rejected_rows.get().line == 2


def test_a_long_value_that_all_rows_name_is_spelled_out_one_row_at_a_time() -> None:
    """In a file of a kilobyte: 16 rows of 4 MB each would be 64 MB if decoded together."""
    names = pa.DictionaryArray.from_arrays(pa.array([0] * 16, pa.int32()), pa.array(["x" * (4 << 20)]))
    file = io.BytesIO()
    pq.write_table(pa.table({"prompt": ["q"] * 16, "response": names}), file, compression="zstd", store_schema=False)
    assert len(file.getvalue()) < 5_000
    before = pa.total_allocated_bytes()
    table = io.BufferedReader(reader.Table(file, len(file.getvalue()), lambda _: None))
    for _ in range(16):
        line = table.readline()
        assert len(line) == len('{"prompt":"q","response":""}\n') + (4 << 20)
        assert pa.total_allocated_bytes() - before < 32 << 20
    assert table.readline() == b""


def test_a_row_group_with_more_values_than_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_VALUES", 1000)
    file = io.BytesIO()
    pq.write_table(pa.table({"prompt": ["q"], "response": ["a"], "zeros": [[0] * 1001]}), file)
    file.seek(0)
    with pytest.raises(UnreadableFile, match="1,001 values of one column in a row group, where 1,000 fit"):
        open_source(file, most_bytes=1 << 30)


def test_wide_rows_are_unpacked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BATCH_BYTES", 1000)
    metadata = pq.ParquetFile(io.BytesIO(parquet(*[{"text": "x" * 600 + str(place)} for place in range(4)]))).metadata
    assert reader._rows_at_once(metadata) == 1
    assert reader._rows_at_once(pq.ParquetFile(io.BytesIO(parquet(*[{"text": "x"}] * 400))).metadata) == 16
