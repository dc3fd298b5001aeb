"""Converts traces to trajectories: one for each chat, read by the same code as an imported file of traces.

Later spans update the trajectories in place, unless something already depends on them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from apps.common.one_at_a_time import one_at_a_time
from apps.common.outages import outage_of
from apps.ingest.files.raw_records import RawRow
from apps.ingest.formats import named
from apps.ingest.reading import Reading, ReadTrajectory, RecognizedRecord
from apps.ingest.traces.span_groups import record_of
from apps.traces.export_request import unpacked
from apps.traces.models import Source, Span, Trace, TracePart
from apps.trajectories.imports.bulk_copy import Origin, copy_in, replace
from apps.trajectories.imports.preparation import Prepared, prepare
from apps.trajectories.models import Trajectory
from apps.trajectories.outlines import visible
from apps.trajectories.referrers import referrer_of

SOURCE = "otlp"
AT_ONCE = 1000
"""Traces of a workspace per call; the next call comes a few seconds later."""
BATCH, BATCH_SPANS, BATCH_BYTES = 100, 2000, 16 << 20
"""Traces, their spans, and bytes of these, per transaction, to amortize its overhead."""
TURN_SECONDS = 10.0
"""Time limit per workspace in a pass, apart from what a batch takes longer: traces can be crafted to take half a minute each, and beyond the time of
`one_at_a_time` another worker would begin. The next pass comes a few seconds later."""
RETRY_SECONDS = 60
"""When a trace is tried again after a full disk or a deadlock."""
KNOWN = "The workspace already has an identical trajectory."

logger = logging.getLogger(__name__)


class Chat(NamedTuple):
    """A chat in a trace."""

    run: ReadTrajectory
    content_hash: bytes
    span_ids: frozenset[str]
    """Its model calls."""


def settle_due() -> None:
    """Make trajectories from traces that have ended or count as complete. A trace that can't be converted records why.

    One worker at a time does those of a workspace: late spans make a large trace due again and again, which would occupy all workers.
    """
    for workspace_id in list(Trace.objects.due_at(now()).order_by().values_list("workspace", flat=True).distinct()):
        with one_at_a_time(f"traces.settle:{workspace_id}", seconds=120) as is_acquired:
            if is_acquired:
                _settle_workspace(workspace_id)


def _settle_workspace(workspace_id: UUID) -> None:
    end = time.monotonic() + TURN_SECONDS
    for traces in _batches(workspace_id):
        try:
            settle(traces)
        except Exception:  # one malformed trace must not block the others
            logger.exception("%d traces could not become trajectories together", len(traces))
            for pk in traces:
                _settle_one(pk)
        if time.monotonic() >= end:
            break


def _batches(workspace_id: UUID) -> Iterator[list[UUID]]:
    """The workspace's traces that are due, in batches that fit into memory and take a short time."""
    due = (
        Trace.objects.due_at(now())
        .filter(workspace=workspace_id)
        .order_by("due_at")
        .values_list("pk", "size", "span_count")[:AT_ONCE]
    )
    batch: list[UUID] = []
    remaining_bytes, remaining_spans = BATCH_BYTES, BATCH_SPANS
    for pk, size, spans in list(due):
        if batch and (len(batch) == BATCH or size > remaining_bytes or spans > remaining_spans):
            yield batch
            batch, remaining_bytes, remaining_spans = [], BATCH_BYTES, BATCH_SPANS
        batch.append(pk)
        remaining_bytes -= size
        remaining_spans -= spans
    if batch:
        yield batch


def _settle_one(pk: UUID) -> None:
    try:
        settle([pk])
    except Exception as error:
        logger.exception("trace %s could not become trajectories", pk)
        if outage_of(error) is not None:  # it isn't the trace's fault; this raises while the database is down
            Trace.objects.filter(pk=pk).update(due_at=now() + timedelta(seconds=RETRY_SECONDS))
            return
        problem = visible(f"It couldn't be read ({type(error).__name__}: {error}).")[:2000]
        Trace.objects.filter(pk=pk).update(state=Trace.State.REFUSED, due_at=None, problem=problem)


@transaction.atomic
def settle(ids: Collection[UUID]) -> None:
    """Store or update the trajectories of traces, except those that received more spans meanwhile or are locked by another worker."""
    due = Trace.objects.due_at(now()).filter(pk__in=ids).order_by("pk")
    traces = list(due.select_for_update(skip_locked=True))
    with_calls = [trace for trace in traces if trace.model_calls]
    spans: dict[UUID, list[Span]] = {trace.pk: [] for trace in with_calls}
    for span in Span.objects.filter(trace__in=with_calls).order_by("source_digest", "span_id"):
        spans[span.trace_id].append(span)
    stored_sources = Source.objects.filter(trace__in=with_calls)
    sources = {(source.trace_id, bytes(source.digest)): unpacked(source.body) for source in stored_sources}
    parts: dict[UUID, list[TracePart]] = {trace.pk: [] for trace in with_calls}
    for part in TracePart.objects.filter(trace__in=with_calls).order_by("pk"):
        parts[part.trace_id].append(part)
    new: list[tuple[Trace, Chat]] = []
    for trace in traces:
        trace.due_at, trace.problem = None, ""
        if not trace.model_calls:
            trace.state = Trace.State.PASSED_OVER
            continue
        body = record_of(
            (sources[trace.pk, bytes(span.source_digest)], unpacked(span.body)) for span in spans[trace.pk]
        )
        chats, problem = _chats_of(body)
        problems: list[str] = []
        for chat, stored_part in _matched(chats, parts[trace.pk]):
            if stored_part is None:
                new.append((trace, chat))
            elif bytes(stored_part.content_hash) != chat.content_hash and (reason := _change(trace, stored_part, chat)):
                problems.append(reason)
        # While some of its chats can't be read, those that are missing may be among them.
        problems += _remove(parts[trace.pk] if chats and not problem else [])
        trace.problem = " ".join(filter(None, [problem, *problems]))[:2000]
        trace.state = Trace.State.STORED if chats else Trace.State.REFUSED
    _add(new)
    Trace.objects.bulk_update(traces, ["due_at", "problem", "state"])


def _chats_of(body: bytes) -> tuple[list[Chat], str]:
    """The chats of a trace, and why there are none, or not all of them."""
    reading = Reading(RecognizedRecord(RawRow(0, 0, body), named("otlp"), ""))
    chats = reading.collect(_chat)
    refusal = reading.refusal
    return chats, visible(" ".join([*([refusal.reason] if refusal else []), *reading.warnings]))


def _chat(trajectory: ReadTrajectory) -> Chat:
    ids = (step.info.get("span") for step in trajectory.record.steps)
    span_ids = frozenset(span_id for span_id in ids if isinstance(span_id, str))
    return Chat(trajectory, trajectory.record.content_hash(), span_ids)


def _matched(chats: list[Chat], parts: list[TracePart]) -> Iterable[tuple[Chat, TracePart | None]]:
    """Matches each chat with the stored part that shares most of its calls, the first of several. At the end, removes those from `parts`."""
    unmatched = dict(enumerate(parts))
    with_span: dict[str, list[int]] = defaultdict(
        list
    )  # a trace may have thousands of chats, so no chat is compared with all parts
    for index, part in unmatched.items():
        for span_id in part.span_ids:
            with_span[span_id].append(index)
    for chat in chats:
        shared = Counter(index for span in chat.span_ids for index in with_span.get(span, ()) if index in unmatched)
        best = max(shared, key=lambda index: (shared[index], -index), default=None)
        yield chat, None if best is None else unmatched.pop(best)
    parts[:] = unmatched.values()


def _add(new: list[tuple[Trace, Chat]]) -> None:
    """Add trajectories, except those that the workspace already has from a file."""
    of_workspace: dict[UUID, list[tuple[Trace, Chat, Prepared]]] = {}
    for trace, chat in new:
        of_workspace.setdefault(trace.workspace_id, []).append((trace, chat, prepare(*chat.run)))
    for workspace_id, rows in of_workspace.items():
        copy_in([prepared for _, _, prepared in rows], Origin(workspace_id, SOURCE))
        ids = [prepared.id for _, _, prepared in rows]
        added = set(Trajectory.objects.filter(pk__in=ids).values_list("pk", flat=True))
        for trace, _, prepared in rows:
            if prepared.id not in added:
                trace.problem = trace.problem or KNOWN
        TracePart.objects.bulk_create(
            TracePart(
                trace=trace,
                trajectory_id=prepared.id,
                span_ids=sorted(chat.span_ids),
                content_hash=chat.content_hash,
            )
            for trace, chat, prepared in rows
            if prepared.id in added
        )


def _remove(parts: list[TracePart]) -> list[str]:
    """Remove chats that turned out to be part of others; returns why some of them stay."""
    kept_ids = []
    for part in parts:
        if reason := _locked_because(part.trajectory_id):
            kept_ids.append(f"The chat of {part.trajectory_id} is part of another one now, but {reason}. It stays.")
        else:
            Trajectory.objects.filter(pk=part.trajectory_id).delete()
    return kept_ids


def _change(trace: Trace, part: TracePart, chat: Chat) -> str:
    """Update a trajectory from its trace; returns why it can't be updated if something depends on it."""
    if reason := _locked_because(part.trajectory_id):
        return f"Late spans changed nothing, since {reason}: {part.trajectory_id} stays as it was."
    if not replace(prepare(*chat.run, identifier=part.trajectory_id), Origin(trace.workspace_id, SOURCE)):
        return f"The trajectory {part.trajectory_id} is unchanged: the workspace has another that is identical."
    part.span_ids, part.content_hash = sorted(chat.span_ids), chat.content_hash
    part.save(update_fields=["span_ids", "content_hash"])
    return ""


def _locked_because(trajectory_id: UUID) -> str:
    """What depends on a trajectory. Locks it first, so nothing can start to depend on it until this transaction ends."""
    Trajectory.objects.select_for_update().filter(pk=trajectory_id).values_list("pk").first()
    resting = referrer_of(trajectory_id, besides={TracePart})
    return f"{resting} depends on the trajectory" if resting else ""
