"""What an annotator does with an item in hand: judge it, draft, skip, flag, and take the last act back.

Nothing is overwritten: a judgement taken back stays, marked; the item is assigned to the same person anew.
"""

from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Max, Min
from django.utils.timezone import now

from apps.annotation.assigning import lease_end, lock_desk, retake_place, return_place
from apps.annotation.models import Annotator, Assignment, Desk, Item, Preference, Queue
from apps.annotation.refusals import AlreadyJudged, AlreadySkipped, NothingToUndo, PlaceLost, TakenBack

UNDO_REACH = 10
DRAFT_CHARACTERS = 20_000


@transaction.atomic
def record_preference(
    *,
    assignment: Assignment,
    strength: int,
    both_bad: bool = False,
    rationale: str = "",
    seconds: float = 0.0,
    guideline_version: int = 0,
) -> Preference:
    """Store one judgement and close its assignment. `strength` is in favour of run a, whichever side it was on.

    The same answer again is answered as the first time: the browser may not have heard us. Another answer raises
    AlreadyJudged. A lease that ran out is no reason to refuse work while the item still has a place; PlaceLost otherwise.
    """
    desk, assignment = _locked(assignment)
    if assignment.state == Assignment.State.JUDGED:
        return _same_answer(assignment, strength=strength, both_bad=both_bad, rationale=rationale)
    _hold(assignment)
    item = assignment.item
    item.judged += 1
    preference = Preference.objects.create(
        workspace_id=assignment.workspace_id,
        queue_id=assignment.queue_id,
        item_id=assignment.item_id,
        annotator_id=assignment.annotator_id,
        assignment=assignment,
        strength=strength,
        both_bad=both_bad,
        rationale=rationale,
        a_was_left=assignment.a_is_left,
        guideline_version=guideline_version,
        seconds=_bounded(seconds, assignment),
    )
    _close(assignment, Assignment.State.JUDGED)
    item.disputed = _is_disputed(item)
    item.save(update_fields=["judged", "disputed"])
    desk.judged += 1
    desk.seconds += preference.seconds
    desk.save(update_fields=["judged", "seconds"])
    return preference


@transaction.atomic
def skip(*, assignment: Assignment, reason: str = "") -> None:
    """Leave this item to others."""
    desk, assignment = _locked(assignment)
    if assignment.state == Assignment.State.SKIPPED:
        return
    if assignment.state == Assignment.State.JUDGED:
        raise AlreadyJudged
    if assignment.state == Assignment.State.UNDONE:
        raise TakenBack
    if assignment.state == Assignment.State.OPEN:
        return_place(assignment.item)
    assignment.skip_reason = reason
    _close(assignment, Assignment.State.SKIPPED)
    desk.skipped += 1
    desk.save(update_fields=["skipped"])


def flag(*, assignment: Assignment, reason: str = "", flagged: bool = True) -> None:
    """Tell the researcher that something is wrong with this item; it stays in hand."""
    Assignment.objects.filter(pk=assignment.pk).update(flagged=flagged, flag_reason=reason if flagged else "")


def save_draft(*, assignment: Assignment, draft: dict[str, Any]) -> None:
    """Keep answers that are not submitted yet. An expired hold keeps its draft too: the person may get the item back."""
    Assignment.objects.filter(pk=assignment.pk, state__in=[Assignment.State.OPEN, Assignment.State.EXPIRED]).update(
        draft=draft
    )


@transaction.atomic
def keep(*, assignment: Assignment) -> Assignment:
    """The person looks at this item: note when they first did, and renew their hold. Refuses like a judgement would."""
    _, assignment = _locked(assignment)
    if assignment.state == Assignment.State.JUDGED:
        raise AlreadyJudged
    _hold(assignment)
    assignment.state, assignment.closed_at = Assignment.State.OPEN, None
    assignment.opened_at = assignment.opened_at or now()
    assignment.leased_until = lease_end(assignment.queue)
    assignment.save(update_fields=["state", "closed_at", "opened_at", "leased_until"])
    return assignment


@transaction.atomic
def undo_last(*, queue: Queue, annotator: Annotator) -> Assignment:
    """Take back this person's latest judgement or skip in `queue`; the item is theirs again, with the old answer as its draft."""
    desk = lock_desk(queue=queue, annotator=annotator)
    own = Assignment.objects.filter(queue=queue, annotator=annotator)
    if own.filter(state=Assignment.State.OPEN, replaces__isnull=False).count() >= UNDO_REACH:
        raise NothingToUndo
    closed = own.filter(state__in=[Assignment.State.JUDGED, Assignment.State.SKIPPED])
    last = closed.select_for_update(of=("self",)).select_related("item").order_by("-closed_at").first()
    if last is None:
        raise NothingToUndo
    item = Item.objects.select_for_update().get(pk=last.item_id)
    if last.state == Assignment.State.JUDGED:
        draft = _retract(last, item, desk)
    else:
        if not retake_place(item):
            raise PlaceLost("Other people have taken the pair that you skipped. It no longer needs you.")
        draft = last.draft
        desk.skipped -= 1
    desk.save(update_fields=["judged", "skipped", "seconds"])
    last.state = Assignment.State.UNDONE
    last.save(update_fields=["state"])
    item.disputed = _is_disputed(item)
    item.save(update_fields=["judged", "disputed"])
    return Assignment.objects.create(
        workspace_id=queue.workspace_id,
        queue=queue,
        item=item,
        annotator=annotator,
        replaces=last,
        a_is_left=last.a_is_left,
        leased_until=lease_end(queue),
        opened_at=now(),
        draft=draft,
    )


def _retract(judged: Assignment, item: Item, desk: Desk) -> dict[str, Any]:
    """Mark the judgement as taken back; its answer, as a draft. The place stays taken: it is the same person's."""
    preference = judged.preference
    preference.retracted_at = now()
    preference.save(update_fields=["retracted_at"])
    item.judged -= 1
    desk.judged -= 1
    desk.seconds = max(desk.seconds - preference.seconds, 0.0)
    lean = preference.strength if judged.a_is_left else -preference.strength
    return {
        "answer": "both_bad" if preference.both_bad else str(lean),
        "rationale": preference.rationale,
        "seconds": preference.seconds,
    }


class _Locked(NamedTuple):
    desk: Desk
    assignment: Assignment


def _locked(assignment: Assignment) -> _Locked:
    """The desk, then the assignment with its item, as they are now and stay until the transaction ends."""
    desk = lock_desk(queue=assignment.queue, annotator=assignment.annotator)
    rows = Assignment.objects.select_for_update(of=("self", "item")).select_related("item")
    fresh = rows.get(pk=assignment.pk)
    fresh.queue = assignment.queue
    return _Locked(desk, fresh)


def _hold(assignment: Assignment) -> None:
    """Make sure of the place that a judgement needs, or say why there is none."""
    if assignment.state == Assignment.State.SKIPPED:
        raise AlreadySkipped
    if assignment.state == Assignment.State.UNDONE:
        raise TakenBack
    if assignment.state == Assignment.State.EXPIRED and not retake_place(assignment.item):
        raise PlaceLost


def _close(assignment: Assignment, state: Assignment.State) -> None:
    assignment.state, assignment.closed_at = state, now()
    assignment.save(update_fields=["state", "closed_at", "skip_reason"])


def _same_answer(assignment: Assignment, **answer: Any) -> Preference:
    preference = assignment.preference
    if any(getattr(preference, name) != value for name, value in answer.items()):
        raise AlreadyJudged
    return preference


def _bounded(seconds: float, assignment: Assignment) -> float:
    """The browser counts time at work; it cannot be more than has passed since the item was first shown."""
    passed = now() - (assignment.opened_at or assignment.created_at)
    before = Preference.objects.filter(assignment=assignment.replaces_id).first() if assignment.replaces_id else None
    return min(max(seconds, 0.0), max(passed.total_seconds(), 0.0) + (before.seconds if before else 0.0))


def _is_disputed(item: Item) -> bool:
    if item.overlap == 1:
        return False
    votes = Preference.objects.standing().filter(item=item).aggregate(least=Min("strength"), most=Max("strength"))
    return votes["least"] is not None and bool(votes["least"] < 0 < votes["most"])
