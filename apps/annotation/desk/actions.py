"""The actions of an annotator on their current item: judge, save a draft, skip, flag, and undo.

Nothing is overwritten: a withdrawn judgment is kept and marked, and the item is assigned to the same person again. Locks are taken in the
order given in `assignments`: desk, assignment, item.
"""

import json
from dataclasses import asdict
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils.timezone import now

from apps.annotation.desk import known_answers
from apps.annotation.desk.assignments import free_slots, lease_end, lock_desk, reclaim_slot
from apps.annotation.kinds import kind_of
from apps.annotation.kinds.kind import Submission
from apps.annotation.models import Adjudication, Annotator, Assignment, Desk, Item, Judgment, Queue
from apps.annotation.refusals import (
    AlreadyJudged,
    AlreadySkipped,
    AnswerTooLong,
    NothingToUndo,
    PlaceLost,
    TakenBack,
    WrongKind,
)
from apps.common.compiled_queries import CompiledQuery
from apps.trajectories.rendering.text import one_line

UNDO_REACH = 10
TASK_CHARS = 60
MAX_CHARACTERS = 1_000_000
"""Maximum length of an answer as JSON; lists of judgments hold a hundred of them."""


@transaction.atomic
def record(
    *,
    assignment: Assignment,
    answer: object,
    seconds: float = 0.0,
    guideline_version: int = 0,
    has_sides: bool = True,
) -> Judgment:
    """Store one judgment and close its assignment. `answer` has the type of the queue's kind: a Choice, a Walk, Scores.

    has_sides: as in `Submission`.

    Repeating the same answer returns the stored judgment, since the browser may have missed the response. Another answer raises
    AlreadyJudged. An expired lease doesn't matter while the item still has a slot; otherwise raises PlaceLost.
    Raises WrongKind, AnswerTooLong, and whatever `Kind.check` raises.
    """
    kind = kind_of(assignment.queue)
    if not isinstance(answer, kind.answer):
        raise WrongKind
    desk, locked = _locked(assignment)
    if locked.state == Assignment.State.JUDGED:
        judged: Judgment = kind.model.objects.get(assignment=locked)
        if kind.answer_of(judged) != answer:
            raise AlreadyJudged
        return judged
    _hold(locked)
    size = len(json.dumps(asdict(answer), default=str, ensure_ascii=False))
    if size > MAX_CHARACTERS:
        raise AnswerTooLong(size, MAX_CHARACTERS)
    kind.check(answer, kind.asked(locked.queue), locked.item)
    judgment: Judgment
    [judgment] = kind.store([Submission(locked, answer, _bounded(seconds, locked), guideline_version, has_sides)])
    _conclude(desk, locked, judgment)
    return judgment


class _Locked(NamedTuple):
    desk: Desk
    assignment: Assignment


def _locked(assignment: Assignment) -> _Locked:
    """Lock and reload the desk, then the assignment with its item, until the transaction ends."""
    desk = lock_desk(queue=assignment.queue_id, annotator=assignment.annotator_id)
    fresh = _WITH_ITEM.get(pk=assignment.pk)
    fresh.queue = assignment.queue
    return _Locked(desk, fresh)


_WITH_ITEM = CompiledQuery(
    lambda pk: Assignment.objects.select_for_update(of=("self", "item")).select_related("item").filter(pk=pk),
    pk=UUID,
)


def _hold(assignment: Assignment) -> None:
    """Secure the slot that a judgment needs, or raise why there's none."""
    if assignment.state == Assignment.State.SKIPPED:
        raise AlreadySkipped
    if assignment.state == Assignment.State.UNDONE:
        raise TakenBack
    if assignment.state == Assignment.State.EXPIRED and not reclaim_slot(assignment.item):
        raise PlaceLost


def _conclude(desk: Desk, assignment: Assignment, judgment: Judgment) -> None:
    """Close the assignment of a newly stored judgment, and count it."""
    item = assignment.item
    item.judged += 1
    item.disputed = is_disputed(item)
    assignment.state, assignment.closed_at = Assignment.State.JUDGED, now()
    known_answers.count(desk, item, judgment, 1)
    values = {name: getattr(desk, name) for name in _COUNTS}
    values |= {"desk": desk.pk, "assignment": assignment.pk, "closed_at": assignment.closed_at}
    values |= {"item": item.pk, "judged_of_item": item.judged, "disputed": item.disputed}
    with connection.cursor() as cursor:
        cursor.execute(_CONCLUDE, values)


_COUNTS = ("judged", "golds", "golds_right", "trained", "trained_right", "seconds")
# All three rows are locked.
_CONCLUDE = f"""
WITH closed AS (
    UPDATE annotation_assignment SET state = 'judged', closed_at = %(closed_at)s WHERE id = %(assignment)s
), judged AS (
    UPDATE annotation_item SET judged = %(judged_of_item)s, disputed = %(disputed)s WHERE id = %(item)s
)
UPDATE annotation_desk SET {", ".join(f"{name} = %({name})s" for name in _COUNTS)} WHERE id = %(desk)s
"""


def _close(assignment: Assignment, state: Assignment.State) -> None:
    assignment.state, assignment.closed_at = state, now()
    assignment.save(update_fields=["state", "closed_at", "skip_reason"])


def is_disputed(item: Item) -> bool:
    """Whether two valid judgments of the item contradict each other."""
    if item.overlap == 1 or item.purpose != Item.Purpose.WORK:
        return False
    kind = kind_of(item)
    return len({kind.stance(judgment) for judgment in kind.valid_judgments.filter(item=item)} - {None}) > 1


def _bounded(seconds: float, assignment: Assignment) -> float:
    """The browser's working time, limited to the time since the item was first shown."""
    passed = now() - (assignment.opened_at or assignment.created_at)
    judgments = kind_of(assignment.queue).model.objects
    before = judgments.filter(assignment=assignment.replaces_id).first() if assignment.replaces_id else None
    return min(max(seconds, 0.0), max(passed.total_seconds(), 0.0) + (before.seconds if before else 0.0))


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
        free_slots(assignment.item)
    assignment.skip_reason = reason
    _close(assignment, Assignment.State.SKIPPED)
    desk.skipped += 1
    desk.save(update_fields=["skipped"])


def flag(*, assignment: Assignment, reason: str = "", flagged: bool = True) -> None:
    """Report a problem with this item to the researcher; the item stays assigned. Raises TakenBack: only the assignment that followed can be unflagged."""
    current = Assignment.objects.filter(pk=assignment.pk).exclude(state=Assignment.State.UNDONE)
    if not current.update(flagged=flagged, flag_reason=reason if flagged else ""):
        raise TakenBack


def save_draft(*, assignment: Assignment, draft: dict[str, Any]) -> None:
    """Save an unsubmitted answer. Also works after the lease expired, since the person may get the item back."""
    Assignment.objects.filter(pk=assignment.pk, state__in=[Assignment.State.OPEN, Assignment.State.EXPIRED]).update(
        draft=draft
    )


@transaction.atomic
def keep(*, assignment: Assignment) -> Assignment:
    """Record that the person is looking at this item and renew their lease. Raises the same refusals as a judgment."""
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
    """Undo this person's latest judgment or skip in `queue`; the item is assigned to them again, with the old answer as its draft.

    Passes over skips whose items others have taken. Raises NothingToUndo; PlaceLost if there were only such skips.
    """
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    if queue.is_of_experiment and _is_closed(queue):
        raise NothingToUndo(
            "This experiment has ended, and its result depends on these answers, so they can't be undone."
        )
    last = _last_act(queue, annotator)
    last.queue = queue
    item = Item.objects.select_for_update().get(pk=last.item_id)
    if last.state == Assignment.State.JUDGED:
        draft = _retract(last, item, desk)
    else:
        draft = last.draft
        desk.skipped -= 1
    desk.save(update_fields=["judged", "skipped", "seconds", "golds", "golds_right"])
    flag = {"flagged": last.flagged, "flag_reason": last.flag_reason}  # copied, or nobody could remove it
    last.state, last.flagged, last.flag_reason = Assignment.State.UNDONE, False, ""
    last.save(update_fields=["state", "flagged", "flag_reason"])
    item.disputed = is_disputed(item)
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
        **flag,
    )


def _is_closed(queue: Queue) -> bool:
    """Whether it's closed; it can't be until the transaction ends: a verdict that is being reached comes first, or counts what is undone."""
    return Queue.objects.select_for_update(no_key=True).get(pk=queue.pk).state == Queue.State.CLOSED


def undo_message(assignment: Assignment) -> str:
    """Message about what an undo took back, for the person who did it. `assignment` is the resulting one."""
    kind = kind_of(assignment.queue)
    judgment = kind.model.objects.filter(assignment=assignment.replaces_id).first()
    task = one_line(assignment.item.task.headline, TASK_CHARS).rstrip(".")  # the sentence goes on after it
    of_task = f" on “{task}”" if task else ""
    undone = f"your answer “{kind.judgment_text_for_author(judgment)}”" if judgment else "your skip"
    return f"Undone: {undone}{of_task}. It's back on your desk."


def _last_act(queue: Queue, annotator: Annotator) -> Assignment:
    """The latest judgment or skip within reach of undo; for a skip, its slot is claimed again. The caller has locked the desk.

    Withdrawn judgments count towards the reach, so it ends at the same item however often, and however late, one undoes.
    """
    acts = Assignment.objects.filter(queue=queue, annotator=annotator, closed_at__isnull=False).exclude(
        item__purpose=Item.Purpose.ONBOARDING  # its answer was shown
    )
    reached = acts.filter(item__in=_latest_items(acts), state__in=[Assignment.State.JUDGED, Assignment.State.SKIPPED])
    assignments = list(reached.select_for_update(of=("self",)).select_related("item").order_by("-closed_at"))
    for act in assignments:
        if act.state == Assignment.State.JUDGED or reclaim_slot(act.item):
            return act
    if assignments:
        raise PlaceLost("Other people have taken the item that you skipped.")
    raise NothingToUndo


def _latest_items(acts: QuerySet[Assignment]) -> set[int]:
    """The items within reach of undo. Read one by one from the newest, since a desk may have tens of thousands."""
    done = acts.filter(state__in=[Assignment.State.JUDGED, Assignment.State.SKIPPED, Assignment.State.UNDONE])
    items: set[int] = set()
    for item in done.order_by("-closed_at").values_list("item", flat=True).iterator(chunk_size=5 * UNDO_REACH):
        items.add(item)
        if len(items) == UNDO_REACH:
            break
    return items


@transaction.atomic
def reopen_skipped(*, queue: Queue, annotator: Annotator) -> int:
    """Make this annotator's skipped items in `queue` available to them again, as far as they have slots; returns how many."""
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    skipped = Assignment.objects.filter(queue=queue, annotator=annotator, state=Assignment.State.SKIPPED)
    count = skipped.update(state=Assignment.State.UNDONE)
    if count:
        desk.skipped, desk.position = 0, 0  # the desk's position is past them
        desk.save(update_fields=["skipped", "position"])
    return count


def _retract(judged: Assignment, item: Item, desk: Desk) -> dict[str, Any]:
    """Mark the judgment as withdrawn and return its answer as a draft. The slot stays taken by the same person."""
    kind = kind_of(judged.queue)
    judgment = kind.model.objects.get(assignment=judged)
    judgment.retracted_at = now()
    judgment.save(update_fields=["retracted_at"])
    # A decision that upheld it no longer applies, so its item is open again.
    Adjudication.objects.valid().filter(item=item, upheld=judgment.pk).update(retracted_at=judgment.retracted_at)
    item.judged -= 1
    known_answers.count(desk, item, judgment, -1)
    return {**kind.draft_of(judgment), "seconds": judgment.seconds}
