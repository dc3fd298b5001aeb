"""Groups the spans of each trace into one record: collectors write finished spans every few seconds, with traces interleaved."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from apps.ingest.files.raw_records import EXCERPT, RawRow, too_long
from apps.ingest.normalization.fields import mapping, optional_list, required_list, text
from apps.ingest.records import BadRow
from apps.ingest.traces.attributes import kind_of, plain
from contract import jsontext

TABLE = "CREATE TABLE span (trace TEXT, line INTEGER, calls_model INTEGER, about BLOB, body BLOB)"
INDEX = "CREATE INDEX by_trace ON span (trace)"
TRACES = "SELECT trace, min(line), sum(length(body)), max(calls_model) FROM span GROUP BY trace ORDER BY min(rowid)"
SPANS = "SELECT about, body FROM span WHERE trace = ? ORDER BY rowid"


class SpanRow(NamedTuple):
    """A span as stored between reading and writing."""

    trace: str
    line: int
    calls_model: bool
    about: bytes
    """Its resource and scope, as JSON."""
    body: bytes


def group_by_trace(rows: Iterator[RawRow], limit: int) -> Iterator[RawRow]:
    """One record for each trace with a model call, in the order they begin; unreadable rows come first.

    Spans are stored in a temporary file, not in memory. If no trace has a model call, the first trace is yielded, and if there are no spans, a record
    without any, so that they are refused with the reason.
    Raises OSError if there is no disk space for them.
    """
    try:
        # A generator may be closed by a different thread than the one that ran it.
        with (
            TemporaryDirectory(prefix="retrace-spans-") as folder,
            closing(sqlite3.connect(Path(folder) / "spans", check_same_thread=False)) as database,
        ):
            yield from _gathered(rows, limit, database)
    except sqlite3.OperationalError as error:
        raise OSError(errno.ENOSPC, str(error)) from error


def _gathered(rows: Iterator[RawRow], limit: int, database: sqlite3.Connection) -> Iterator[RawRow]:
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    database.execute(TABLE)
    position = 0
    without_spans: RawRow | None = None
    for row in rows:
        spans = _spans_in(row)
        if spans is None:
            yield row._replace(position=position)
            position += 1
        elif spans:
            database.executemany("INSERT INTO span VALUES (?, ?, ?, ?, ?)", spans)
        else:
            without_spans = without_spans or row
    database.execute(INDEX)
    traces = database.execute(TRACES).fetchall()
    if without_spans and not traces:
        yield without_spans._replace(position=position)
    for trace, line, size, _ in [candidate for candidate in traces if candidate[3]] or traces[:1]:
        spans_of_trace = database.execute(SPANS, [trace])
        if size > limit:
            yield RawRow(position, line, next(spans_of_trace)[1][:EXCERPT], too_long(limit))
        else:
            yield RawRow(position, line, record_of(spans_of_trace))
        position += 1


def _spans_in(row: RawRow) -> list[SpanRow] | None:
    """The spans of a record; None if it has none or can't be read."""
    if row.problem:
        return None
    try:
        groups = groups_in(mapping(jsontext.loads(row.body)))
        return [_row(span, jsontext.dumps(details), row.line) for details, spans in groups for span in spans]
    except (jsontext.UnreadableJSON, BadRow):
        return None


def groups_in(record: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The spans of a record, grouped by an object of their resource and scope. Raises BadRow."""
    for resource in map(mapping, required_list(record, "resourceSpans")):
        # The second name is from versions before 1.0.
        key = "scopeSpans" if "scopeSpans" in resource else "instrumentationLibrarySpans"
        for scope in map(mapping, optional_list(resource, key)):
            details = {"resource": mapping(resource.get("resource")), "scope": mapping(scope.get("scope"))}
            yield details, [mapping(span) for span in optional_list(scope, "spans")]


def _row(span: dict[str, Any], details: bytes, line: int) -> SpanRow:
    calls_model = kind_of(plain(span.get("attributes"))) == "model"
    return SpanRow(text(span.get("traceId")), line, calls_model, details, jsontext.dumps(span))


def record_of(spans: Iterable[tuple[bytes, bytes]]) -> bytes:
    """An object with `resourceSpans` that holds these spans, given as pairs of resource and scope, and span, both as JSON."""
    groups: list[bytes] = []
    for details, group in groupby(spans, key=lambda span: span[0]):
        decoded_about = jsontext.loads(details)
        resource, scope = jsontext.dumps(decoded_about["resource"]), jsontext.dumps(decoded_about["scope"])
        bodies = b",".join(body for _, body in group)
        groups.append(b'{"resource":%b,"scopeSpans":[{"scope":%b,"spans":[%b]}]}' % (resource, scope, bodies))
    return b'{"resourceSpans":[%b]}' % b",".join(groups)
