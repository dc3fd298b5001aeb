"""Finds and claims a free slot of a queue in one statement, since people wait for it.

The search starts at the person's position in the queue instead of its first item, and includes slots freed since they last
looked. Both read a partial index of items with a free slot, in order, and stop after a few.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Sum
from django.utils.timezone import now

from apps.annotation.models import Annotator, Assignment, Desk, Item, Queue

TRIES = ((8, "SKIP LOCKED"), (256, "SKIP LOCKED"), (1, ""))
"""How many free items to consider, and what to do about locked ones: skip them and look further, then wait."""
COMMIT_LAG = timedelta(minutes=1)
"""A freed slot becomes visible when its transaction commits, which is later than its timestamp; clocks differ, too."""
SWEEP_EVERY = timedelta(minutes=1)
_HELD = [Assignment.State.OPEN, Assignment.State.JUDGED]

# The desk never moves past the first candidate, which may be locked by somebody else now and still have a slot later.
# The row lock and the repeated check of `taken` make the update safe against concurrent takers.
CLAIM = """
WITH free AS MATERIALIZED (
    (SELECT id, position, returned_at FROM annotation_item i
     WHERE queue_id = %(queue)s AND purpose = 'work' AND taken < overlap AND returned_at > %(since)s AND {untouched}
     ORDER BY returned_at LIMIT %(count)s)
    UNION ALL
    (SELECT id, position, NULL FROM annotation_item i
     WHERE queue_id = %(queue)s AND purpose = 'work' AND taken < overlap AND position >= %(position)s AND {untouched}
     ORDER BY position LIMIT %(count)s)
), moved AS (
    UPDATE annotation_desk SET
        offered = offered + 1,
        position = coalesce((SELECT min(position) FROM free WHERE returned_at IS NULL), position),
        returns_seen = coalesce((SELECT min(returned_at) FROM free), %(now)s)
    WHERE id = %(desk)s
), taken AS (
    UPDATE annotation_item SET taken = taken + 1 WHERE id = (
        SELECT i.id FROM free JOIN annotation_item i USING (id) WHERE i.taken < i.overlap
        ORDER BY free.returned_at NULLS LAST, free.position LIMIT 1 FOR UPDATE OF i {locked}
    ) RETURNING id
)
SELECT (SELECT count(*) FROM free), {slot}
FROM (SELECT 1) one LEFT JOIN taken ON true
"""
_UNTOUCHED = """NOT EXISTS (SELECT FROM annotation_assignment s
                 WHERE s.item_id = i.id AND s.annotator_id = %(annotator)s AND s.state = ANY(%(dealt_with)s))"""
# The columns of Slot.
_SLOT = """taken.id,
       (SELECT s.id FROM annotation_assignment s
        WHERE s.item_id = taken.id AND s.annotator_id = %(annotator)s AND s.state = 'expired' ORDER BY s.id DESC LIMIT 1),
       (SELECT s.id FROM annotation_assignment s
        WHERE s.item_id = taken.id AND s.annotator_id = %(annotator)s AND s.state IN ('skipped', 'undone') AND s.flagged
        ORDER BY s.id DESC LIMIT 1)"""
_OPEN_TO_PERSON = """(NOT EXISTS (SELECT FROM annotation_itemassignee g WHERE g.item_id = i.id)
                OR EXISTS (SELECT FROM annotation_itemassignee g WHERE g.item_id = i.id AND g.user_id = %(user)s))"""


# Gold items come in a different order for each person, so that people can't tell each other which ones they are.
CLAIM_KNOWN = """
WITH taken AS (
    UPDATE annotation_item SET taken = taken + 1 WHERE id = (
        SELECT id FROM annotation_item i WHERE queue_id = %(queue)s AND purpose = %(purpose)s AND {untouched}
        ORDER BY CASE purpose WHEN 'gold' THEN hashint8extended(id, %(desk)s) ELSE position END LIMIT 1 FOR UPDATE
    ) RETURNING id
), moved AS (
    UPDATE annotation_desk SET offered = offered + 1 WHERE id = %(desk)s AND EXISTS (SELECT FROM taken)
)
SELECT {slot}
FROM taken
"""


def judged_in(queue: Queue) -> int:
    """The queue's valid judgments of ordinary items, summed over its desks."""
    judged: int = Desk.objects.filter(queue=queue).aggregate(judged=Sum("judged", default=0))["judged"]
    return judged


class Slot(NamedTuple):
    """A slot that was just claimed."""

    item: int
    expired: UUID | None
    """The person's earlier assignment of the same item, whose lease expired."""
    flagged: UUID | None = None
    """Their earlier assignment of the same item that they had flagged; it was skipped or undone."""


def claim_known(desk: Desk, queue: Queue, annotator: Annotator, purpose: Item.Purpose) -> Slot | None:
    """The next gold or onboarding item that this person hasn't seen; None if they've seen all."""
    values: dict[str, Any] = {
        "queue": queue.pk,
        "desk": desk.pk,
        "annotator": annotator.pk,
        "purpose": purpose.value,
        "dealt_with": [*_HELD, Assignment.State.SKIPPED],
    }
    with connection.cursor() as cursor:
        cursor.execute(CLAIM_KNOWN.format(untouched=_UNTOUCHED, slot=_SLOT), values)
        row = cursor.fetchone()
    return Slot(*row) if row else None


# The conditions of CLAIM, for a look that takes nothing.
_HAS_SLOT = f"""
SELECT EXISTS (SELECT FROM annotation_item i
               WHERE queue_id = %(queue)s AND purpose = 'work' AND taken < overlap AND returned_at > %(since)s
                 AND {_UNTOUCHED} AND {_OPEN_TO_PERSON})
    OR EXISTS (SELECT FROM annotation_item i
               WHERE queue_id = %(queue)s AND purpose = 'work' AND taken < overlap AND position >= %(position)s
                 AND {_UNTOUCHED} AND {_OPEN_TO_PERSON})
"""


def has_slot(desk: Desk, queue: Queue, annotator: Annotator) -> bool:
    """Whether `claim_slot` has an ordinary item for this person now that they haven't skipped."""
    values: dict[str, Any] = {
        "queue": queue.pk,
        "annotator": annotator.pk,
        "user": annotator.user_id,
        "since": desk.returns_seen - COMMIT_LAG,
        "position": desk.position,
        "dealt_with": [*_HELD, Assignment.State.SKIPPED],
    }
    with connection.cursor() as cursor:
        cursor.execute(_HAS_SLOT, values)
        [found] = cursor.fetchone()
    return bool(found)


# What this person skipped, and may have again.
_SKIPPED = f"""
SELECT i.id, i.purpose, skip.closed_at FROM annotation_assignment skip JOIN annotation_item i ON i.id = skip.item_id
WHERE skip.queue_id = %(queue)s AND skip.annotator_id = %(annotator)s AND skip.state = 'skipped'
  AND i.purpose IN ('work', 'gold') AND i.taken < i.overlap AND {_UNTOUCHED} AND {_OPEN_TO_PERSON}
"""

# In the order in which they were skipped, gold items among the others: otherwise what comes back would never be measured, or gold items would stand
# out. So they would if they came alone, when others have taken the rest.
_CLAIM_SKIPPED = f"""
WITH skipped AS MATERIALIZED ({_SKIPPED}), taken AS (
    UPDATE annotation_item SET taken = taken + 1 WHERE id = (
        SELECT i.id FROM skipped JOIN annotation_item i USING (id)
        WHERE i.taken < i.overlap AND EXISTS (SELECT FROM skipped WHERE purpose = 'work')
        ORDER BY skipped.closed_at LIMIT 1 FOR UPDATE OF i
    ) RETURNING id
), moved AS (
    UPDATE annotation_desk SET offered = offered + 1 WHERE id = %(desk)s AND EXISTS (SELECT FROM taken)
)
SELECT (SELECT count(*) FROM skipped WHERE purpose = 'work'), {_SLOT}
FROM (SELECT 1) one LEFT JOIN taken ON true
"""


def _of_skipped(desk: Desk, queue: Queue, annotator: Annotator) -> dict[str, Any]:
    """The parameters of _SKIPPED."""
    values: dict[str, Any] = {"queue": queue.pk, "desk": desk.pk, "annotator": annotator.pk}
    return {**values, "user": annotator.user_id, "dealt_with": _HELD}


def has_skipped(desk: Desk, queue: Queue, annotator: Annotator) -> bool:
    """Whether an ordinary item that this person skipped comes back."""
    if not _wants_skipped(desk, queue, annotator):
        return False
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT EXISTS (SELECT FROM ({_SKIPPED}) skipped WHERE purpose = 'work')",
            _of_skipped(desk, queue, annotator),
        )
        [found] = cursor.fetchone()
    return bool(found)


def _wants_skipped(desk: Desk, queue: Queue, annotator: Annotator) -> bool:
    """Whether items that this person skipped come back at the end. Only to people, since a machine would skip them again, forever."""
    return queue.skipped_come_back and desk.skipped > 0 and annotator.kind == Annotator.Kind.PERSON


def claim_slot(desk: Desk, queue: Queue, annotator: Annotator) -> Slot | None:
    """The next free slot for this person, whose desk the caller has locked; None if there's none."""
    dealt_with = [*_HELD, Assignment.State.SKIPPED]
    since = desk.returns_seen - COMMIT_LAG
    slot = _claim(desk, queue, annotator, since=since, position=desk.position, dealt_with=dealt_with)
    return slot or _sweep(desk, queue, annotator) or _claim_skipped(desk, queue, annotator)


def _sweep(desk: Desk, queue: Queue, annotator: Annotator) -> Slot | None:
    """Search the whole queue once more, for anything missed above."""
    if desk.swept_at and now() - desk.swept_at < SWEEP_EVERY:
        return None
    desk.swept_at = now()
    desk.save(update_fields=["swept_at"])
    dealt_with = [*_HELD, Assignment.State.SKIPPED]
    return _claim(desk, queue, annotator, since=desk.swept_at, position=0, dealt_with=dealt_with)


def _claim_skipped(desk: Desk, queue: Queue, annotator: Annotator) -> Slot | None:
    if not _wants_skipped(desk, queue, annotator):
        return None
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_CLAIM_SKIPPED, _of_skipped(desk, queue, annotator))
            left, item, expired, flagged = cursor.fetchone()
        if item is not None:
            _forget_skip(desk, annotator, item)
            return Slot(item, expired, flagged)
        if not left:
            return None
        # Others took all of them meanwhile. They made progress, so retrying terminates.


def _forget_skip(desk: Desk, annotator: Annotator, item: int) -> None:
    """Remove the skip of an item that returned, since undoing it would take a second slot of the same item."""
    skips = Assignment.objects.filter(item=item, annotator=annotator, state=Assignment.State.SKIPPED)
    desk.skipped -= skips.update(state=Assignment.State.UNDONE)
    desk.save(update_fields=["skipped"])


def _claim(
    desk: Desk, queue: Queue, annotator: Annotator, *, since: datetime, position: int, dealt_with: Sequence[str]
) -> Slot | None:
    values: dict[str, Any] = {
        "queue": queue.pk,
        "desk": desk.pk,
        "annotator": annotator.pk,
        "user": annotator.user_id,
        "since": since,
        "position": position,
        "dealt_with": list(dealt_with),
        "now": now(),
    }
    while True:
        for count, locked in TRIES:
            with connection.cursor() as cursor:
                cursor.execute(
                    CLAIM.format(untouched=f"{_UNTOUCHED} AND {_OPEN_TO_PERSON}", locked=locked, slot=_SLOT),
                    {**values, "count": count},
                )
                free, *slot = cursor.fetchone()
            if slot[0] is not None:
                return Slot(*slot)
            if not free:
                return None
        # All candidates were taken meanwhile. Others made progress, so retrying terminates.
