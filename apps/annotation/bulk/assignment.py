"""Assigns items to named people. Current holds are kept, and each item still gets as many judgments as its queue asks for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils.timezone import now

from apps.accounts.models import Membership, User
from apps.annotation.audit import record
from apps.annotation.models import BulkAct, Item, ItemAssignee, Queue
from apps.annotation.queues.overlap import FixedByPlan
from apps.annotation.refusals import Refusal
from apps.common.workspace_turns import do_in_workspace_turns

MAX_ITEMS = 5_000
MAX_SLOTS = 50_000
"""Limit of items times people: each combination is a row, with a copy for undo."""

TURN_SECONDS = 5.0
"""How long items of one workspace are freed before those of the next."""


class NoSuchItems(Refusal):
    code = "no_such_items"
    message = "Some of these aren't items of this queue that are to be judged. Reload the page, and choose again."


class NotTheirs(Refusal):
    code = "not_theirs"

    def __init__(self, people: Sequence[User]) -> None:
        names = ", ".join(map(str, people))
        super().__init__(f"{names} can't label in this queue. Add them to the workspace, and to the queue's people.")


class TooManyPlaces(Refusal):
    code = "too_many_places"

    def __init__(self, items: int, people: int) -> None:
        super().__init__(
            f"{items:,} items for {people} people each are more than {MAX_SLOTS:,}. Assign fewer items at once, or name fewer people."
        )


class TooFewPeople(Refusal):
    code = "too_few_people"

    def __init__(self, count: int, overlap: int) -> None:
        super().__init__(
            f"{overlap} people judge each item of this queue, and you named {count}. Name {overlap} or more, or nobody."
        )


class PartOfExperiment(FixedByPlan):
    message = (
        "The plan of its experiment drew the order of its pairs, and assigned ones come first. The experiment may end after any of them, so its verdict "
        "would be about those. Assign all of them at once."
    )


@transaction.atomic
def assign_items(*, queue: Queue, items: Collection[int], people: Sequence[User], by: Membership) -> BulkAct:
    """Assign these items to these people only, or to everybody if `people` is empty.

    Raises NoSuchItems, NotTheirs, TooFewPeople, TooManyPlaces, PartOfExperiment.
    """
    queue = _with_lock(queue)
    _check_people(queue, people)
    item_ids = set(items)
    if len(item_ids) * len(people) > MAX_SLOTS:
        raise TooManyPlaces(len(item_ids), len(people))
    locked = _locked(queue, item_ids)
    if not item_ids or len(locked) != len(item_ids) or len(item_ids) > MAX_ITEMS:
        raise NoSuchItems
    if queue.is_of_experiment and Item.objects.filter(queue=queue).exclude(pk__in=locked).exists():
        raise PartOfExperiment
    before = people_by_item(item_ids)
    _put(queue, {item: [user.pk for user in people] for item in locked})
    names = ", ".join(map(str, people)) or "everybody"
    description = f"Assigned {len(locked):,} item{'' if len(locked) == 1 else 's'} to {names}"[:300]
    record(queue, by.user, "assigned items of", items=len(locked), people=len(people))
    return BulkAct.objects.create(
        workspace_id=queue.workspace_id,
        kind=BulkAct.Kind.ASSIGN,
        queue=queue,
        by=by.user,
        words=description,
        count=len(locked),
        before={str(item): before.get(item, []) for item in locked},
    )


def _with_lock(queue: Queue) -> Queue:
    """The queue as it is now and stays until the transaction ends: its overlap may be raised meanwhile."""
    return Queue.objects.select_for_update(of=("self",), no_key=True).select_related("workspace").get(pk=queue.pk)


def _check_people(queue: Queue, people: Sequence[User]) -> None:
    if people and len(people) < queue.overlap:
        raise TooFewPeople(len(people), queue.overlap)
    labelers = _labelers_of(queue)
    if strangers := [user for user in people if user.pk not in labelers]:
        raise NotTheirs(strangers)


def _labelers_of(queue: Queue) -> set[int]:
    """The ids of the users to whom items of this queue can be assigned."""
    members = set(Membership.objects.filter(workspace=queue.workspace_id).values_list("user", flat=True))
    return members & set(queue.labelers.values_list("pk", flat=True)) if queue.is_restricted else members


def _locked(queue: Queue, items: Collection[int]) -> list[int]:
    """Lock items in the global lock order."""
    rows = Item.objects.select_for_update().filter(queue=queue, pk__in=items, purpose=Item.Purpose.WORK)
    return list(rows.order_by("pk").values_list("pk", flat=True))


def people_by_item(items: Collection[int]) -> dict[int, list[int]]:
    """The ids of each item's assignees; none if it's for everybody."""
    people: dict[int, list[int]] = defaultdict(list)
    for item, user in ItemAssignee.objects.filter(item__in=items).order_by("pk").values_list("item", "user"):
        people[item].append(user)
    return people


def free_unreachable() -> None:
    """Free items that are reserved for people who may no longer label there. Called by a periodic task, since memberships end in several ways.

    If too few of an item's people are left to judge it as often as its queue asks for, it's for everybody.
    """
    members = Membership.objects.filter(workspace=OuterRef("queue__workspace"), user=OuterRef("user"))
    labelers = Queue.labelers.through.objects.filter(queue=OuterRef("queue"), user=OuterRef("user"))
    reserved = ItemAssignee.objects.filter(queue__state=Queue.State.OPEN)
    unreachable = reserved.filter(~Exists(members) | Q(queue__is_restricted=True) & ~Exists(labelers))
    queues = Queue.objects.filter(pk__in=list(unreachable.values_list("queue", flat=True).distinct()))
    do_in_workspace_turns(queues, _free_unreachable_in, name="unreachable-items", seconds=TURN_SECONDS)


@transaction.atomic
def _free_unreachable_in(queue: Queue) -> None:
    queue = _with_lock(queue)
    reserved = ItemAssignee.objects.filter(queue=queue).exclude(user__in=_labelers_of(queue))
    items = set(reserved.order_by("item").values_list("item", flat=True)[:MAX_ITEMS])
    _put_labelers(queue, people_by_item(_locked(queue, items)))


def _put(queue: Queue, people: Mapping[int, Sequence[int]]) -> None:
    """Replace the assignees of these locked items. The items count as freed, so that desks already past them find them, too."""
    ItemAssignee.objects.filter(item__in=people).delete()
    ItemAssignee.objects.bulk_create(
        (ItemAssignee(item_id=item, queue=queue, user_id=user) for item, users in people.items() for user in users),
        batch_size=2000,
    )
    Item.objects.filter(pk__in=people, taken__lt=F("overlap")).update(returned_at=now())


def restore_people(act: BulkAct) -> None:
    """Restore the assignees that this action replaced, as far as they may still label here. The caller has locked it.

    If too few of them are left to judge an item as often as its queue asks for, it's for everybody.
    """
    queue = _with_lock(act.queue)
    locked = _locked(queue, [int(item) for item in act.before])
    _put_labelers(queue, {item: act.before[str(item)] for item in locked})


def _put_labelers(queue: Queue, people: Mapping[int, Sequence[int]]) -> None:
    """Replace the assignees of these locked items by those of `people` who may label; by nobody, if too few may."""
    labelers = _labelers_of(queue)
    able = {item: [user for user in users if user in labelers] for item, users in people.items()}
    _put(queue, {item: users if len(users) >= queue.overlap else [] for item, users in able.items()})
