"""What every judgement does around its own rows: make sure of the place, close the assignment, count.

Locks are taken in the order that `assigning` names: desk, assignment, item.
"""

from typing import Any, NamedTuple

from django.utils.timezone import now

from apps.annotation.desk import checking
from apps.annotation.desk.assigning import lock_desk, retake_place
from apps.annotation.models import JUDGEMENTS, Assignment, Desk, Judgement, Queue
from apps.annotation.refusals import AlreadySkipped, PlaceLost, TakenBack, WrongKind
from apps.annotation.review.disputing import is_disputed


class Locked(NamedTuple):
    desk: Desk
    assignment: Assignment


def locked(assignment: Assignment) -> Locked:
    """The desk, then the assignment with its item, as they are now and stay until the transaction ends."""
    desk = lock_desk(queue=assignment.queue_id, annotator=assignment.annotator_id)
    rows = Assignment.objects.select_for_update(of=("self", "item")).select_related("item")
    fresh = rows.get(pk=assignment.pk)
    fresh.queue = assignment.queue
    return Locked(desk, fresh)


def expect_kind(assignment: Assignment, kind: Queue.Kind) -> None:
    """Raises WrongKind when the queue asks for another kind of judgement."""
    if assignment.queue.kind != kind:
        raise WrongKind


def hold(assignment: Assignment) -> None:
    """Make sure of the place that a judgement needs, or say why there is none."""
    if assignment.state == Assignment.State.SKIPPED:
        raise AlreadySkipped
    if assignment.state == Assignment.State.UNDONE:
        raise TakenBack
    if assignment.state == Assignment.State.EXPIRED and not retake_place(assignment.item):
        raise PlaceLost


def columns_of(assignment: Assignment, *, seconds: float, guideline_version: int) -> dict[str, Any]:
    """The columns that all judgements share."""
    return {
        "workspace_id": assignment.workspace_id,
        "queue_id": assignment.queue_id,
        "item_id": assignment.item_id,
        "annotator_id": assignment.annotator_id,
        "assignment": assignment,
        "guideline_version": guideline_version,
        "seconds": _bounded(seconds, assignment),
    }


def conclude(desk: Desk, assignment: Assignment, judgement: Judgement) -> None:
    """Close the assignment of a judgement that was just stored, and count it."""
    item = assignment.item
    item.judged += 1
    close(assignment, Assignment.State.JUDGED)
    item.disputed = is_disputed(item)
    item.save(update_fields=["judged", "disputed"])
    desk.save(update_fields=checking.count(desk, item, judgement, 1))


def close(assignment: Assignment, state: Assignment.State) -> None:
    assignment.state, assignment.closed_at = state, now()
    assignment.save(update_fields=["state", "closed_at", "skip_reason"])


def judgement_of(assignment: Assignment) -> Judgement:
    """The judgement that closed this assignment."""
    return JUDGEMENTS[Queue.Kind(assignment.queue.kind)].objects.get(assignment=assignment)


def _bounded(seconds: float, assignment: Assignment) -> float:
    """The browser counts time at work; it cannot be more than has passed since the item was first shown."""
    passed = now() - (assignment.opened_at or assignment.created_at)
    judgements = JUDGEMENTS[Queue.Kind(assignment.queue.kind)].objects
    before = judgements.filter(assignment=assignment.replaces_id).first() if assignment.replaces_id else None
    return min(max(seconds, 0.0), max(passed.total_seconds(), 0.0) + (before.seconds if before else 0.0))
