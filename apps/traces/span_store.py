"""Stores spans as they arrive: each once, however often and in whatever order it's sent."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Sum
from django.utils.timezone import now

from apps.common.ids import new_id
from apps.common.query_time_limit import lock_time_limit
from apps.traces.export_request import Batch, Span, calls_model, unpacked
from apps.traces.models import Trace
from apps.trajectories.outlines import clip
from contract import jsontext

MAX_SPANS = 20_000
"""Maximum number of spans per trace."""
SETTLE_SECONDS = 10
"""Wait after the root span for the trace's other spans: SDKs send every 5 seconds, each service separately."""
MAX_SOURCE_COPIES = 32 << 20
"""Limit in bytes of the resources and scopes of one request over all of its traces: each trace stores its own copy, so one of 256 KiB
would take gigabytes in a request with 50,000 traces.
"""
LOCK_MILLISECONDS = 2000
"""How long to wait for a locked trace: a process has two threads for the spans of all workspaces."""
COUNT_SECONDS = 5.0
_stored: dict[UUID, tuple[float, int]] = {}
"""When the bytes of a workspace's spans were last summed up, and the result."""
INCOMING = """
    CREATE TEMPORARY TABLE IF NOT EXISTS incoming_span (
        trace_id uuid, span_id text, ended bigint, source_digest bytea, body bytea
    ) ON COMMIT DELETE ROWS
"""
STORED_ENDS = """
    SELECT trace_id, span_id, ended
    FROM traces_span JOIN unnest(%s::uuid[], %s::text[]) AS incoming (trace_id, span_id) USING (trace_id, span_id)
"""
COPY_SPANS = "COPY incoming_span FROM STDIN (FORMAT binary)"
COLUMN_TYPES = ["uuid", "text", "int8", "bytea", "bytea"]
ADD_SPANS = """
    WITH stored AS (
        INSERT INTO traces_span (trace_id, span_id, ended, source_digest, body)
        SELECT trace_id, span_id, ended, source_digest, body FROM incoming_span
        ON CONFLICT (trace_id, span_id) DO UPDATE
            SET ended = excluded.ended, source_digest = excluded.source_digest, body = excluded.body
            WHERE traces_span.ended < excluded.ended
        RETURNING trace_id, span_id
    )
    SELECT trace_id, span_id, before.body FROM stored LEFT JOIN traces_span AS before USING (trace_id, span_id)
"""
"""The table as joined is the one before the statement."""
ADD_SOURCES = """
    INSERT INTO traces_source (trace_id, digest, body)
    SELECT * FROM unnest(%s::uuid[], %s::bytea[], %s::bytea[]) ON CONFLICT DO NOTHING
    RETURNING trace_id, octet_length(body)
"""
ADD_TRACES = """
    INSERT INTO traces_trace (
        id, workspace_id, trace_id, changed_at,
        name, service, state, span_count, model_calls, size, has_root, problem
    )
    SELECT unnest(%s::uuid[]), %s, unnest(%s::text[]), %s, '', '', 'arriving', 0, 0, 0, false, ''
    ON CONFLICT (workspace_id, trace_id) DO NOTHING
"""
COUNT_SPANS = """
    UPDATE traces_trace SET
        name = new.name, service = new.service, span_count = new.span_count, model_calls = new.model_calls,
        size = new.size, has_root = new.has_root, due_at = new.due_at, changed_at = %s, state = 'arriving'
    FROM unnest(
        %s::uuid[], %s::text[], %s::text[], %s::int[], %s::int[], %s::bigint[], %s::bool[], %s::timestamptz[]
    ) AS new (id, name, service, span_count, model_calls, size, has_root, due_at)
    WHERE traces_trace.id = new.id
"""


class StorageFull(Exception):
    """The workspace has reached its limit of stored span bytes."""


def store_spans(workspace_id: UUID, batch: Batch) -> int:
    """Store the new spans of a request; returns how many. Spans that don't fit their trace count as rejected.

    Raises StorageFull, and OperationalError if a trace is locked for long: a worker is turning it into trajectories.
    """
    spans = _each_once(batch.spans)
    if not spans:
        return 0
    with lock_time_limit(LOCK_MILLISECONDS):
        return _store(workspace_id, spans, batch)


def _store(workspace_id: UUID, spans: list[Span], batch: Batch) -> int:
    _refuse_beyond_storage(workspace_id)
    moment = now()
    traces = _traces(workspace_id, {span.trace_id for span in spans}, moment)
    accepted = _within_limits(batch, spans, traces)
    new = _insert(accepted, traces)
    changed = [span for span in accepted if (traces[span.trace_id].pk, span.span_id) in new]
    for span in changed:
        _count(traces[span.trace_id], span, before=new[traces[span.trace_id].pk, span.span_id], moment=moment)
    _insert_sources(changed, traces)
    _save({span.trace_id: traces[span.trace_id] for span in changed}.values(), moment)
    return sum(before is None for before in new.values())


def _each_once(spans: Iterable[Span]) -> list[Span]:
    latest: dict[tuple[str, str], Span] = {}
    for span in spans:
        key = span.trace_id, span.span_id
        if key not in latest or latest[key].ended < span.ended:
            latest[key] = span
    return list(latest.values())


def _refuse_beyond_storage(workspace_id: UUID) -> None:
    """Uses a sum from a few seconds ago, since computing it takes longer than handling a request."""
    counted, stored = _stored.get(workspace_id, (0.0, 0))
    if time.monotonic() > counted + COUNT_SECONDS:
        stored = (
            Trace.objects.filter(workspace=workspace_id).with_spans().aggregate(size=Sum("size", default=0))["size"]
        )
        _stored[workspace_id] = time.monotonic(), stored
    if stored >= settings.TRACES_MAX_STORED_BYTES:
        raise StorageFull(
            f"The workspace keeps {stored >> 20:,} MiB of spans, which is its limit. Spans are removed a day after the last one of their trace."
        )


def _traces(workspace_id: UUID, ids: Iterable[str], moment: datetime) -> dict[str, Trace]:
    """The traces with these ids, created if missing, locked until the end of the transaction in a consistent order."""
    trace_ids = sorted(ids)
    with connection.cursor() as cursor:
        cursor.execute(ADD_TRACES, [[new_id() for _ in trace_ids], workspace_id, trace_ids, moment])
    locked = (
        Trace.objects.filter(workspace=workspace_id, trace_id__in=trace_ids).order_by("trace_id").select_for_update()
    )
    return {trace.trace_id: trace for trace in locked}


def _within_limits(batch: Batch, spans: list[Span], traces: dict[str, Trace]) -> list[Span]:
    """Leaves out spans that exceed their trace's limit, or that arrive after its spans were deleted."""
    accepted: list[Span] = []
    copies: dict[tuple[str, bytes], int] = {}
    copies_left = MAX_SOURCE_COPIES
    remaining_spans = {trace_id: MAX_SPANS - trace.span_count for trace_id, trace in traces.items()}
    bytes_left = {trace_id: settings.TRACES_MAX_TRACE_BYTES - trace.size for trace_id, trace in traces.items()}
    needed_spans, needed_bytes = Counter[str](), Counter[str]()
    for span in spans:
        needed_spans[span.trace_id] += 1
        needed_bytes[span.trace_id] += span.size
    crowded = {
        name for name in traces if needed_spans[name] > remaining_spans[name] or needed_bytes[name] > bytes_left[name]
    }
    stored_ends = _stored_ends([span for span in spans if span.trace_id in crowded], traces)
    for span in spans:
        name = span.trace_id
        stored_end = stored_ends.get((traces[name].pk, span.span_id))
        if stored_end is not None and stored_end >= span.ended:  # sent again
            continue
        copy = 0 if (name, span.source.digest) in copies else len(span.source.body)
        if traces[name].closed_at is not None:
            batch.reject(f"The trace {name} is closed: its last span arrived long ago.")
        elif (stored_end is None and remaining_spans[name] <= 0) or bytes_left[name] < span.size:
            mebibytes = settings.TRACES_MAX_TRACE_BYTES >> 20
            batch.reject(f"The trace {name} is full: {MAX_SPANS:,} spans, or {mebibytes:,} MiB of them, is the limit.")
        elif copy > copies_left:
            mebibytes = MAX_SOURCE_COPIES >> 20
            batch.reject(f"The resources of so many traces take more than {mebibytes} MiB. Send fewer traces at once.")
        else:
            remaining_spans[name] -= stored_end is None
            bytes_left[name] -= span.size
            copies[name, span.source.digest] = copy
            copies_left -= copy
            accepted.append(span)
    return accepted


def _stored_ends(spans: list[Span], traces: dict[str, Trace]) -> dict[tuple[UUID, str], int]:
    """When the stored versions of these spans ended."""
    if not spans:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(STORED_ENDS, [[traces[span.trace_id].pk for span in spans], [span.span_id for span in spans]])
        return {(trace, span_id): ended for trace, span_id, ended in cursor.fetchall()}


def _insert(spans: list[Span], traces: dict[str, Trace]) -> dict[tuple[UUID, str], bytes | None]:
    """The spans that are new or end later than the stored version; for each, that version."""
    with connection.cursor() as cursor:
        cursor.execute(INCOMING)
        cursor.execute("TRUNCATE incoming_span")
        # Django doesn't wrap `copy`, so its errors have to be converted explicitly.
        with connection.wrap_database_errors, cursor.copy(COPY_SPANS) as copy:
            copy.set_types(COLUMN_TYPES)
            for span in spans:
                copy.write_row(
                    (traces[span.trace_id].pk, span.span_id, span.ended, span.source.digest, span.body),
                )
        cursor.execute(ADD_SPANS)
        return {(trace, span_id): before for trace, span_id, before in cursor.fetchall()}


def _insert_sources(spans: list[Span], traces: dict[str, Trace]) -> None:
    """Store the resources and scopes of these spans. Each counts once towards the size of its trace."""
    sources = {(traces[span.trace_id].pk, span.source.digest): span.source.body for span in spans}
    owners, digests = zip(*sources, strict=True) if sources else ((), ())
    by_id = {trace.pk: trace for trace in traces.values()}
    with connection.cursor() as cursor:
        cursor.execute(ADD_SOURCES, [list(owners), list(digests), list(sources.values())])
        for trace_id, size in cursor.fetchall():
            by_id[trace_id].size += size


def _count(trace: Trace, span: Span, *, before: bytes | None, moment: datetime) -> None:
    if before is None:
        trace.span_count += 1
    else:  # it may have lacked the attributes of a model call
        body = unpacked(before)
        trace.model_calls -= calls_model(jsontext.loads(body))
        trace.size -= len(body)
    trace.model_calls += span.calls_model
    trace.size += span.size
    if span.is_root or not trace.name:
        trace.name, trace.service = clip(span.name, 200), clip(span.source.service, 200)
    trace.has_root = trace.has_root or (span.is_root and span.ended > 0)
    rest = SETTLE_SECONDS if trace.has_root else settings.TRACES_REST_SECONDS
    trace.due_at = moment + timedelta(seconds=rest)


def _save(traces: Collection[Trace], moment: datetime) -> None:
    """Save the changes of `_count` in one statement: Django's `bulk_update` takes longer than everything else together."""
    columns = ("pk", "name", "service", "span_count", "model_calls", "size", "has_root", "due_at")
    with connection.cursor() as cursor:
        cursor.execute(COUNT_SPANS, [moment, *([getattr(trace, name) for trace in traces] for name in columns)])
