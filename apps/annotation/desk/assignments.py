"""Assigns the next item to an annotator.

An item has `overlap` slots. Claiming one is a conditional update under the item's row lock, so two people never share a
slot; its lease expires if its holder goes away.

Locks are always taken in this order: desk, assignment, item.
"""

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from random import SystemRandom
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, Min, OuterRef, QuerySet
from django.utils.timezone import now

from apps.accounts.models import Membership
from apps.annotation.desk.claims import Slot, claim_slot, has_skipped, has_slot, judged_in
from apps.annotation.desk.known_answers import claim_known_item
from apps.annotation.models import Annotator, Assignment, Desk, Item, ItemAssignee, Queue
from apps.annotation.refusals import DeskPaused, NotForYou, QueueNotOpen, Refusal
from apps.common.compiled_queries import CompiledQuery

AHEAD = 1
"""Items that a person may hold besides the current one."""

_coin = SystemRandom()


def annotator_of(member: Membership) -> Annotator:
    """The member's annotator in this workspace, created when they first judge; the same one if they leave and come back."""
    person = _PERSON.first(workspace=member.workspace_id, user=member.user_id)
    return (
        person
        or Annotator.objects.get_or_create(
            workspace_id=member.workspace_id,
            user=member.user,
            defaults={"kind": Annotator.Kind.PERSON, "name": str(member.user)},
        )[0]
    )


def next_assignment(*, queue: Queue, annotator: Annotator, besides: Collection[UUID] = ()) -> Assignment | None:
    """The item to work on now: one already held that isn't among `besides`, else a newly taken one; None if none is left.

    Somebody who holds `AHEAD` items besides the current one gets no more, which prevents hoarding.
    Raises QueueNotOpen, NotForYou, DeskPaused, except that people may finish items they've been shown.
    """
    if not may_label(queue, annotator):
        raise NotForYou
    assignment = _next(queue, annotator, besides)
    if assignment is None and _lapsed(queue).exists():
        # A periodic task ends leases every 15 seconds; end them now rather than send somebody home.
        expire_leases(queue=queue)
        assignment = _next(queue, annotator, besides)
    return assignment


def _refusal(queue: Queue, desk: Desk) -> Refusal | None:
    """Why nothing new is assigned here, if so."""
    if queue.state != Queue.State.OPEN or has_ended(queue):
        return QueueNotOpen()
    return DeskPaused(desk.pause_reason) if desk.paused_at else None


def has_ended(queue: Queue) -> bool:
    """Whether the queue's end date has passed, or it has all the judgments it asked for. A periodic task closes it soon."""
    if queue.ends_at and queue.ends_at <= now():
        return True
    return queue.ends_after is not None and judged_in(queue) >= queue.ends_after


def may_label(queue: Queue, annotator: Annotator) -> bool:
    """Whether this annotator may judge items of this queue. Models and rules may, since a researcher added them."""
    if not queue.is_restricted or annotator.kind != Annotator.Kind.PERSON:
        return True
    return queue.labelers.filter(pk=annotator.user_id).exists()


@transaction.atomic
def _next(queue: Queue, annotator: Annotator, besides: Collection[UUID]) -> Assignment | None:
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    refusal = _refusal(queue, desk)
    in_hand = _IN_HAND.all(queue=queue.pk, annotator=annotator.pk)
    for assignment in in_hand:
        if assignment.pk not in besides and (refusal is None or assignment.opened_at):
            return _renewed(assignment, queue)
    if refusal:
        raise refusal
    if sum(assignment.replaces_id is None for assignment in in_hand) > AHEAD:
        return None
    slot = (
        _given_before(desk, queue, annotator, is_ahead=bool(in_hand))
        or claim_known_item(desk, queue, annotator)
        or claim_slot(desk, queue, annotator)
    )
    return None if slot is None else _assign(slot, queue, annotator)


def lock_desk(*, queue: UUID, annotator: UUID) -> Desk:
    """This annotator's desk, locked until the transaction ends, which serializes one person's actions."""
    desk = _DESK.first(queue=queue, annotator=annotator)
    if desk is not None:
        return desk
    columns = {"returns_seen": _reserved_since(queue, annotator)}
    return Desk.objects.select_for_update().get_or_create(queue_id=queue, annotator_id=annotator, defaults=columns)[0]


def _reserved_since(queue: UUID, annotator: UUID) -> datetime:
    """Since when items are reserved for somebody who begins only now. They come first, as those that are reserved for people who are at work."""
    reserved = ItemAssignee.objects.filter(queue=queue, user__in=Annotator.objects.filter(pk=annotator).values("user"))
    return reserved.aggregate(since=Min("item__returned_at"))["since"] or now()


def _open_assignments(queue: UUID, annotator: UUID) -> QuerySet[Assignment]:
    """Held items: undone ones first, in the order they were first judged; then those shown; then those loaded ahead.

    Locked: waits for leases that are just being ended, and leaves those out.
    """
    return (
        Assignment.objects.select_for_update(of=("self",))
        .filter(queue=queue, annotator=annotator, state=Assignment.State.OPEN)
        .order_by(F("replaces").asc(nulls_last=True), F("opened_at").asc(nulls_last=True), "pk")
    )


_PERSON = CompiledQuery(
    lambda workspace, user: Annotator.objects.filter(workspace=workspace, user=user), workspace=UUID, user=int
)
_DESK = CompiledQuery(
    lambda queue, annotator: Desk.objects.select_for_update().filter(queue=queue, annotator=annotator),
    queue=UUID,
    annotator=UUID,
)
_IN_HAND = CompiledQuery(_open_assignments, queue=UUID, annotator=UUID)


def _renewed(assignment: Assignment, queue: Queue) -> Assignment:
    assignment.leased_until = lease_end(queue)
    assignment.save(update_fields=["leased_until"])
    return assignment


def lease_end(queue: Queue) -> datetime:
    return now() + timedelta(seconds=queue.lease_seconds)


def _given_before(desk: Desk, queue: Queue, annotator: Annotator, *, is_ahead: bool) -> Slot | None:
    """An item that this person had when their lease expired, or that was loaded ahead and freed, if it still has a slot.

    One that they had begun comes first, unless it would only be loaded ahead; its draft was kept. What was let go comes again at once, whether it's
    gold or not: otherwise ordinary items would, but gold ones only when a gold item is due again.
    """
    expired = Assignment.objects.filter(queue=queue, annotator=annotator, state=Assignment.State.EXPIRED)
    if is_ahead:
        expired = expired.filter(opened_at=None)
    assignees = ItemAssignee.objects.filter(item=OuterRef("item"))
    available = expired.filter(~Exists(assignees) | Exists(assignees.filter(user=annotator.user_id)))
    free = available.filter(item__taken__lt=F("item__overlap")).select_related("item")
    last = free.order_by(F("opened_at").desc(nulls_last=True), "-closed_at").first()
    if last is None or (not last.opened_at and _stands_out(last.item, desk, queue, annotator)):
        return None
    return Slot(last.item_id, last.pk) if reclaim_slot(last.item) else None


def _stands_out(item: Item, desk: Desk, queue: Queue, annotator: Annotator) -> bool:
    """Whether it's a gold item, and no ordinary one is left for this person."""
    is_gold = item.purpose == Item.Purpose.GOLD
    return is_gold and not (has_slot(desk, queue, annotator) or has_skipped(desk, queue, annotator))


def _assign(slot: Slot, queue: Queue, annotator: Annotator) -> Assignment:
    """Assign the item. An expired assignment of the same person is reopened with its draft and its sides."""
    flag = _take_flag(slot.flagged) if slot.flagged else {}
    if slot.expired:
        Assignment.objects.filter(pk=slot.expired).update(
            state=Assignment.State.OPEN, closed_at=None, leased_until=lease_end(queue), **flag
        )
        return Assignment.objects.get(pk=slot.expired)
    return Assignment.objects.create(
        workspace_id=queue.workspace_id,
        queue=queue,
        item_id=slot.item,
        annotator=annotator,
        a_is_left=_coin.random() < 0.5,
        leased_until=lease_end(queue),
        **flag,
    )


def _take_flag(assignment: UUID) -> dict[str, Any]:
    """The flag of an assignment that is over, which goes with the item: there, nobody could lift it."""
    [reason] = Assignment.objects.filter(pk=assignment).values_list("flag_reason", flat=True)
    Assignment.objects.filter(pk=assignment).update(flagged=False, flag_reason="")
    return {"flagged": True, "flag_reason": reason}


def _lapsed(queue: Queue | None) -> QuerySet[Assignment]:
    lapsed = Assignment.objects.filter(state=Assignment.State.OPEN, leased_until__lte=now())
    return lapsed if queue is None else lapsed.filter(queue=queue)


@transaction.atomic
def expire_leases(*, queue: Queue | None = None, at_most: int = 1000) -> int:
    """Free the slots of people who went away; returns how many. Their drafts are kept."""
    lapsed = list(_lapsed(queue).select_for_update(skip_locked=True).order_by("leased_until")[:at_most])
    return _expire(lapsed)


@transaction.atomic
def release_ahead(*, queue: Queue, annotator: Annotator) -> int:
    """Free items that were loaded ahead and never shown; returns how many. Called when the person leaves the desk."""
    lock_desk(queue=queue.pk, annotator=annotator.pk)
    unseen = _open_assignments(queue.pk, annotator.pk).filter(opened_at=None, replaces=None)
    return _expire(list(unseen))


def _expire(assignments: list[Assignment]) -> int:
    Assignment.objects.filter(pk__in=[assignment.pk for assignment in assignments]).update(
        state=Assignment.State.EXPIRED, closed_at=now()
    )
    slots = Counter(assignment.item_id for assignment in assignments)
    for item in Item.objects.select_for_update().filter(pk__in=slots).order_by("pk"):
        free_slots(item, slots[item.pk])
    return len(assignments)


def free_slots(item: Item, slots: int = 1) -> None:
    """Free `slots` of `item`, which the caller has locked."""
    # Never below: an item whose count is wrong mustn't keep those of other workspaces from being freed.
    item.taken = max(item.taken - slots, item.judged)
    item.returned_at = now()
    item.save(update_fields=["taken", "returned_at"])


def reclaim_slot(item: Item) -> bool:
    """Reclaim a slot of `item` for somebody whose lease expired; False if others have filled it."""
    return bool(Item.objects.filter(pk=item.pk, taken__lt=F("overlap")).update(taken=F("taken") + 1))
