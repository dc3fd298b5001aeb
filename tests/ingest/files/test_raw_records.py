"""Splitting files into records: every layout, every block boundary, every kind of damage."""

import io
import json
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.ingest.files import raw_records
from apps.ingest.files.raw_records import Layout, RawRow, split

LIMIT = 1 << 20


def rows_of(body: bytes, layout: Layout, limit: int = LIMIT) -> list[RawRow]:
    return list(split(io.BufferedReader(io.BytesIO(body)), layout, limit=limit))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(alphabet='ab"\\[]{},: \nü', max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(
    items=st.lists(st.dictionaries(st.text(max_size=4), json_values, max_size=4) | st.lists(json_values, max_size=3)),
    indent=st.sampled_from([None, 1]),
    block=st.integers(1, 9),
)
def test_a_list_gives_its_items_whatever_falls_on_a_block_boundary(items, indent, block):
    written = json.dumps(items, indent=indent, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw_records, "BLOCK", block)
        rows = rows_of(written, Layout.LIST)
    assert [json.loads(row.body) for row in rows] == items
    assert [row.problem for row in rows] == [""] * len(items)
    assert [(row.position, row.line) for row in rows] == [(at, at + 1) for at in range(len(items))]


@given(items=st.lists(st.dictionaries(st.text(max_size=4), json_values, max_size=4)), block=st.integers(1, 9))
def test_values_one_after_another_are_told_apart(items, block):
    written = "\n".join(json.dumps(item, indent=2) for item in items).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw_records, "BLOCK", block)
        assert [json.loads(row.body) for row in rows_of(written, Layout.VALUES)] == items


def test_lines_know_their_number_and_blank_ones_do_not_count():
    rows = rows_of(b'{"a":1}\r\n\r\n   \n{"b":2}', Layout.LINES)
    assert [(row.position, row.line, row.body.strip()) for row in rows] == [(0, 1, b'{"a":1}'), (1, 4, b'{"b":2}')]


def test_a_value_says_on_which_line_it_starts():
    rows = rows_of(b'\n{\n "a": 1\n}\n\n{"b": 2}\n', Layout.VALUES)
    assert [row.line for row in rows] == [2, 6]


def test_a_line_over_the_limit_is_a_problem_and_the_next_ones_are_read():
    rows = rows_of(b'{"a":"' + b"x" * 5000 + b'"}\n{"b":2}\n', Layout.LINES, limit=4000)
    assert [row.problem != "" for row in rows] == [True, False]
    assert len(rows[0].body) == raw_records.EXCERPT
    assert rows[1].line == 2


@pytest.mark.parametrize("layout", [Layout.LIST, Layout.VALUES])
def test_a_value_over_the_limit_is_a_problem_and_the_next_ones_are_read(layout, monkeypatch):
    monkeypatch.setattr(raw_records, "BLOCK", 64)
    body = b'{"a": "' + b"x" * 9000 + b'"}'
    written = b"[" + body + b', {"b": 2}]' if layout is Layout.LIST else body + b'\n{"b": 2}'
    rows = rows_of(written, layout, limit=4000)
    assert [row.problem != "" for row in rows] == [True, False]
    assert rows[1].body == b'{"b": 2}'


class OneLongString(io.RawIOBase):
    """A list whose first string is 64 MiB long, generated while it's read."""

    def __init__(self) -> None:
        self.blocks = iter([b'["', *[b"x" * (1 << 20)] * 64])

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        block = next(self.blocks, b"")
        memoryview(buffer)[: len(block)] = block  # type: ignore[arg-type]  # a writable buffer
        return len(block)


@pytest.mark.parametrize("layout", list(Layout))
def test_what_is_beyond_the_limit_is_not_held(layout):
    tracemalloc.start()
    rows = list(split(io.BufferedReader(OneLongString(), 1 << 20), layout, limit=4 << 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [bool(row.problem) for row in rows] == [True]
    assert peak < 20 << 20


def test_a_million_open_brackets_are_one_problem():
    rows = rows_of(b"[" + b"[" * 1_000_000, Layout.LIST)
    assert [row.problem for row in rows[:1]] == ["The file ends inside this record: it was cut off."]


def test_deep_but_balanced_values_are_cut_where_they_end():
    deep = b"[" * 50_000 + b"]" * 50_000
    rows = rows_of(b"[" + deep + b',{"a":1}]', Layout.LIST)
    assert [row.body for row in rows] == [deep, b'{"a":1}']


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b'[{"a":1},]', ["", "A comma with no record after it."]),
        (b'[{"a":1},,{"b":2}]', ["", "A comma with no record before it.", ""]),
        (b'[{"a":1}, {"b":', ["", "The file ends inside this record: it was cut off."]),
        (b'[{"a":1}, {"b":"x', ["", "The file ends inside this record: it was cut off."]),
        (b'[{"a":1}', ["", "The file ends before the list does: it was cut off."]),
        (b"[]", []),
        (b'[1, null, "x"]', ["", "", ""]),
        (
            b'[{"a":1}, {"b":[1}, {"c":3}]',
            ["", "Its brackets do not match. The records after it could not be told apart."],
        ),
    ],
)
def test_broken_lists_keep_what_can_be_read(written, expected):
    assert [row.problem for row in rows_of(written, Layout.LIST)] == expected


def test_after_a_value_with_wrong_brackets_the_next_line_starts_anew():
    rows = rows_of(b'{"a":1}\n{"b":[1}\n{"c":3}\n', Layout.VALUES)
    assert [row.problem for row in rows] == ["", "Its brackets do not match.", ""]
    assert rows[2].body == b'{"c":3}'


@pytest.mark.parametrize("block", [1, 5, 1 << 20])
def test_rubbish_between_values_is_a_record_of_its_own(block, monkeypatch):
    monkeypatch.setattr(raw_records, "BLOCK", block)
    rows = rows_of(b'{"a":1}\nhello {there}\n{"b":2}', Layout.VALUES)
    assert [(row.line, row.body) for row in rows] == [(1, b'{"a":1}'), (2, b"hello {there}"), (3, b'{"b":2}')]
    rows = rows_of(b'[{"a":1}, null, 12345, {"b":2}]', Layout.LIST)
    assert [row.body for row in rows] == [b'{"a":1}', b"null", b"12345", b'{"b":2}']


def test_records_come_one_at_a_time():
    def endless() -> Iterator[bytes]:
        while True:
            yield b'{"a":1}\n'

    class Stream:
        lines = endless()

        def readline(self, size: int, /) -> bytes:
            return next(self.lines)

        def read(self, size: int, /) -> bytes:
            return next(self.lines)

    assert next(split(Stream(), Layout.LINES, limit=100)).body == b'{"a":1}\n'
    assert next(split(Stream(), Layout.VALUES, limit=100)).body == b'{"a":1}'
