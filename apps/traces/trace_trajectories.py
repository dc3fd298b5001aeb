"""What a trace has become: a trajectory for each chat in it, read by the same code as an imported file of traces.

Spans that come later change the trajectories in place, unless something rests on them already.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

import zstandard
from django.db import transaction
from django.utils.timezone import now

from apps.ingest.files.raw_records import RawRow
from apps.ingest.formats import named
from apps.ingest.reading import Found, Reading, Run
from apps.ingest.traces.span_groups import record_of
from apps.traces.models import Source, Span, Trace, TracePart
from apps.trajectories.imports.bulk_copy import Origin, copy_in, replace
from apps.trajectories.imports.preparation import prepare
from apps.trajectories.models import Trajectory
from apps.trajectories.outlines import visible
from apps.trajectories.rests import rests_on

SOURCE = "otlp"
AT_ONCE = 200
"""Traces that one call takes; the next comes a few seconds later."""

logger = logging.getLogger(__name__)


class Chat(NamedTuple):
    """A chat of a trace."""

    run: Run
    content_hash: bytes
    span_ids: frozenset[str]
    """Its model calls."""


def settle_due() -> None:
    """Make trajectories of the traces that have ended or rest. One that can't be any says why."""
    due = list(Trace.objects.due_at(now()).order_by("due_at").values_list("pk", flat=True)[:AT_ONCE])
    for pk in due:
        try:
            settle(pk)
        except Exception as error:  # a trace so odd that it breaks something must not hold up the others
            logger.exception("trace %s could not become trajectories", pk)
            problem = visible(f"It couldn't be read ({type(error).__name__}: {error}).")[:2000]
            Trace.objects.filter(pk=pk).update(state=Trace.State.REFUSED, due_at=None, problem=problem)


@transaction.atomic
def settle(trace_id: UUID) -> None:
    """Store, or change, what a trace has become, unless more of it came meanwhile, or another worker is at it."""
    trace = Trace.objects.select_for_update(skip_locked=True).due_at(now()).filter(pk=trace_id).first()
    if trace is None:
        return
    trace.due_at, trace.problem = None, ""
    if not trace.model_calls:
        trace.state = Trace.State.PASSED_OVER
    else:
        chats, trace.problem = _chats_of(trace)
        kept = _store(trace, chats) if chats else []
        trace.problem = " ".join([*filter(None, [trace.problem]), *kept])[:2000]
        trace.state = Trace.State.STORED if chats else Trace.State.REFUSED
    trace.save(update_fields=["due_at", "problem", "state"])


def _chats_of(trace: Trace) -> tuple[list[Chat], str]:
    """The chats of a trace, and why it has none, or not all of them."""
    spans = list(Span.objects.filter(trace=trace).order_by("source_digest", "span_id"))
    sources = {bytes(source.digest): unpacked(source.body) for source in Source.objects.filter(trace=trace)}
    body = record_of((sources[bytes(span.source_digest)], unpacked(span.body)) for span in spans)
    reading = Reading(Found(RawRow(0, 0, body), named("otlp"), ""))
    chats = reading.each(_chat)
    refusal = reading.refusal
    return chats, visible(" ".join([*([refusal.reason] if refusal else []), *reading.warnings]))


def _chat(run: Run) -> Chat:
    ids = (step.info.get("span") for step in run.record.steps)
    return Chat(run, run.record.content_hash(), frozenset(each for each in ids if isinstance(each, str)))


def unpacked(body: bytes | memoryview) -> bytes:
    """JSON of a span or a source, as it is stored."""
    # The size stands in the frame's header, which `export_request.compressed` wrote.
    return zstandard.ZstdDecompressor().decompress(bytes(body))


def _store(trace: Trace, chats: list[Chat]) -> list[str]:
    """Add, change and remove trajectories; answers why some of them stay as they were."""
    parts = list(TracePart.objects.filter(trace=trace).order_by("pk"))
    kept: list[str] = []
    for chat, part in _matched(chats, parts):
        if part is None:
            _add(trace, chat)
        elif bytes(part.content_hash) != chat.content_hash and (reason := _change(trace, part, chat)):
            kept.append(reason)
    for part in parts:  # those left over: their chat turned out to be part of another
        reason = _locked_because(part.trajectory_id)
        if reason:
            kept.append(f"The trajectory {part.trajectory_id} is part of another one now, but {reason}. It stays.")
        else:
            Trajectory.objects.filter(pk=part.trajectory_id).delete()
    return kept


def _matched(chats: list[Chat], parts: list[TracePart]) -> Iterable[tuple[Chat, TracePart | None]]:
    """Each chat with the stored one that shares most of its calls. Takes those out of `parts`."""
    for chat in chats:
        shared = [len(chat.span_ids.intersection(part.span_ids)) for part in parts]
        best = max(range(len(parts)), key=shared.__getitem__, default=None)
        yield chat, parts.pop(best) if best is not None and shared[best] else None


def _add(trace: Trace, chat: Chat) -> None:
    """A trajectory that the workspace has already, from a file, is not added again."""
    prepared = prepare(*chat.run)
    if copy_in([prepared], Origin(trace.workspace_id, SOURCE)).trajectories:
        TracePart.objects.create(
            trace=trace,
            trajectory_id=prepared.id,
            span_ids=sorted(chat.span_ids),
            content_hash=chat.content_hash,
        )


def _change(trace: Trace, part: TracePart, chat: Chat) -> str:
    """Bring a trajectory to what its trace says now; answers why not, where something rests on it."""
    if reason := _locked_because(part.trajectory_id):
        return f"Spans came after {reason}, so the trajectory {part.trajectory_id} stays as it was."
    if not replace(prepare(*chat.run, identifier=part.trajectory_id), Origin(trace.workspace_id, SOURCE)):
        return f"The trajectory {part.trajectory_id} stays as it was: the workspace has another that says the same."
    part.span_ids, part.content_hash = sorted(chat.span_ids), chat.content_hash
    part.save(update_fields=["span_ids", "content_hash"])
    return ""


def _locked_because(trajectory_id: UUID) -> str:
    """What rests on a trajectory, which is locked first: nothing can begin to rest on it until this transaction is over."""
    Trajectory.objects.select_for_update().filter(pk=trajectory_id).values_list("pk").first()
    resting = rests_on(trajectory_id, besides={TracePart})
    return f"{resting} was made of it" if resting else ""
