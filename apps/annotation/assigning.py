"""Who labels what next.

An item has `overlap` places. Taking one is a conditional update under the item's row lock, so two people never share a
place; a lease gives it back when its holder went away. Finding an item costs the same at any depth of any queue: each
annotator's desk remembers where they are, and places that come back behind that point are found by the time they did.

Locks are always taken in this order: desk, assignment, item.
"""

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from random import SystemRandom
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils.timezone import now

from apps.annotation.models import Annotator, Assignment, Desk, Item, Queue
from apps.annotation.refusals import QueueNotOpen

AHEAD = 1
"""Items that a person may hold besides the one they work on."""
TRIES = ((8, False), (256, False), (1, True))
"""How many free items to choose among, and whether to wait for a lock: others may hold all of the first few for a moment."""
COMMIT_LAG = timedelta(minutes=1)
"""A place that came back shows when its transaction commits, which is later than its time says; clocks differ, too."""
SWEEP_EVERY = timedelta(minutes=1)

_coin = SystemRandom()


def next_assignment(*, queue: Queue, annotator: Annotator, besides: Collection[UUID] = ()) -> Assignment | None:
    """The item to work on now: one already in hand that is not among `besides`, else a newly taken one; None when none is left.

    Somebody who already holds one item more than they work on gets no further one: `AHEAD` keeps people from hoarding.
    """
    if queue.state != Queue.State.OPEN:
        raise QueueNotOpen
    if _lapsed(queue).exclude(annotator=annotator).exists():
        expire_leases(queue=queue)
    with transaction.atomic():
        desk = lock_desk(queue=queue, annotator=annotator)
        in_hand = list(_in_hand(queue, annotator))
        for assignment in in_hand:
            if assignment.pk not in besides:
                return _renewed(assignment, queue)
        if sum(assignment.replaces_id is None for assignment in in_hand) > AHEAD:
            return None
        item = (None if in_hand else _left_unfinished(queue, annotator)) or _take_place(desk, queue, annotator)
        return None if item is None else _assign(item, queue, annotator)


def lock_desk(*, queue: Queue, annotator: Annotator) -> Desk:
    """This annotator's desk, locked until the transaction ends: one person does one thing at a time."""
    desks = Desk.objects.select_for_update().filter(queue=queue, annotator=annotator)
    found = desks.first()
    if found is None:
        Desk.objects.bulk_create([Desk(queue=queue, annotator=annotator)], ignore_conflicts=True)
        found = desks.get()
    return found


def _in_hand(queue: Queue, annotator: Annotator) -> QuerySet[Assignment]:
    """Taken-back ones first, in the order they were first done; then what was shown; then what was loaded ahead.

    Locked: one whose lease is just being ended by somebody else is waited for, and is then not among them.
    """
    return (
        Assignment.objects.select_for_update(of=("self",))
        .filter(queue=queue, annotator=annotator, state=Assignment.State.OPEN)
        .select_related("item")
        .order_by(F("replaces").asc(nulls_last=True), F("opened_at").asc(nulls_last=True), "pk")
    )


def _renewed(assignment: Assignment, queue: Queue) -> Assignment:
    assignment.leased_until = lease_end(queue)
    assignment.save(update_fields=["leased_until"])
    return assignment


def lease_end(queue: Queue) -> datetime:
    return now() + timedelta(seconds=queue.lease_seconds)


# Finding a free place ----------------------------------------------------------------------------------------------------


def _left_unfinished(queue: Queue, annotator: Annotator) -> Item | None:
    """An item that this person had begun when their lease ran out, if it still has a place: its draft waits for them."""
    begun = Assignment.objects.filter(
        queue=queue, annotator=annotator, state=Assignment.State.EXPIRED, opened_at__isnull=False
    )
    candidates = begun.filter(item__taken__lt=F("item__overlap")).order_by("-closed_at")[:1]
    return _lock_and_take([assignment.item_id for assignment in candidates], wait=True)


def _take_place(desk: Desk, queue: Queue, annotator: Annotator) -> Item | None:
    """Lock a free item that this annotator has not dealt with, and count one more place of it as taken."""
    while True:
        for count, wait in TRIES:
            candidates = _candidates(desk, queue, annotator, count)
            if not candidates:
                return None
            if item := _lock_and_take([item.pk for item in candidates], wait=wait):
                return item
        # All that was free was taken meanwhile. Others got on, so looking again comes to an end.


def _candidates(desk: Desk, queue: Queue, annotator: Annotator, count: int) -> list[Item]:
    """Free items for this annotator, places that came back first; moves the desk past what is not for them.

    Never past the first candidate: somebody else may have it locked now and yet leave a place for us.
    """
    free = _free(queue, annotator, also_skipped=False)
    returned = list(free.filter(returned_at__gt=desk.returns_seen - COMMIT_LAG).order_by("returned_at")[:count])
    if returned:
        _move(desk, returns_seen=returned[0].returned_at)
        return returned
    upcoming = list(free.filter(position__gte=desk.position).order_by("position")[:count])
    if upcoming:
        _move(desk, position=upcoming[0].position, returns_seen=now())
        return upcoming
    return _sweep(desk, queue, annotator, count)


def _sweep(desk: Desk, queue: Queue, annotator: Annotator, count: int) -> list[Item]:
    """Look through the whole queue once more: for skipped items that may come back, and for anything missed above."""
    wants_skipped = queue.skipped_come_back and desk.skipped > 0
    if desk.swept_at and now() - desk.swept_at < SWEEP_EVERY and not wants_skipped:
        return []
    found = list(_free(queue, annotator, also_skipped=wants_skipped).order_by("position")[:count])
    _move(desk, swept_at=now(), **({"position": found[0].position} if found else {}))
    return found


def _move(desk: Desk, **values: Any) -> None:
    for name, value in values.items():
        setattr(desk, name, value)
    desk.save(update_fields=list(values))


def _free(queue: Queue, annotator: Annotator, *, also_skipped: bool) -> QuerySet[Item]:
    held = [Assignment.State.OPEN, Assignment.State.JUDGED]
    if not also_skipped:
        held.append(Assignment.State.SKIPPED)
    dealt_with = Assignment.objects.filter(item=OuterRef("pk"), annotator=annotator, state__in=held)
    return Item.objects.filter(~Exists(dealt_with), queue=queue, taken__lt=F("overlap"))


def _lock_and_take(candidates: list[int], *, wait: bool) -> Item | None:
    """Take a place of the first candidate that still has one; others' locks are passed over, or waited for."""
    if not candidates:
        return None
    items = Item.objects.select_for_update(skip_locked=not wait).filter(pk__in=candidates, taken__lt=F("overlap"))
    item = items.order_by("position").first()
    if item:
        item.taken += 1
        item.save(update_fields=["taken"])
    return item


def _assign(item: Item, queue: Queue, annotator: Annotator) -> Assignment:
    """A hold on `item`. An expired one of the same person opens again, with its draft and its sides."""
    expired = (
        Assignment.objects.filter(item=item, annotator=annotator, state=Assignment.State.EXPIRED)
        .order_by("-pk")
        .first()
    )
    if expired:
        expired.state, expired.closed_at, expired.leased_until = Assignment.State.OPEN, None, lease_end(queue)
        expired.save(update_fields=["state", "closed_at", "leased_until"])
        return expired
    return Assignment.objects.create(
        workspace_id=queue.workspace_id,
        queue=queue,
        item=item,
        annotator=annotator,
        a_is_left=_coin.random() < 0.5,
        leased_until=lease_end(queue),
    )


# Giving places back -------------------------------------------------------------------------------------------------------


def _lapsed(queue: Queue | None) -> QuerySet[Assignment]:
    lapsed = Assignment.objects.filter(state=Assignment.State.OPEN, leased_until__lte=now())
    return lapsed if queue is None else lapsed.filter(queue=queue)


@transaction.atomic
def expire_leases(*, queue: Queue | None = None, at_most: int = 1000) -> int:
    """Give back the places of people who went away; how many. Their drafts stay with them."""
    lapsed = list(_lapsed(queue).select_for_update(skip_locked=True).order_by("leased_until")[:at_most])
    return _give_back(lapsed)


@transaction.atomic
def release_ahead(*, queue: Queue, annotator: Annotator) -> int:
    """Give back what was loaded ahead and never shown; how many. Called when the person leaves the desk."""
    lock_desk(queue=queue, annotator=annotator)
    unseen = _in_hand(queue, annotator).filter(opened_at=None, replaces=None)
    return _give_back(list(unseen))


def _give_back(assignments: list[Assignment]) -> int:
    Assignment.objects.filter(pk__in=[assignment.pk for assignment in assignments]).update(
        state=Assignment.State.EXPIRED, closed_at=now()
    )
    places = Counter(assignment.item_id for assignment in assignments)
    for item in Item.objects.select_for_update().filter(pk__in=places).order_by("pk"):
        return_place(item, places[item.pk])
    return len(assignments)


def return_place(item: Item, places: int = 1) -> None:
    """Let others have `places` of `item`, which the caller has locked."""
    item.taken -= places
    item.returned_at = now()
    item.save(update_fields=["taken", "returned_at"])


def retake_place(item: Item) -> bool:
    """Take a place of `item` again for somebody whose lease expired; False when others filled it."""
    return bool(Item.objects.filter(pk=item.pk, taken__lt=F("overlap")).update(taken=F("taken") + 1))
