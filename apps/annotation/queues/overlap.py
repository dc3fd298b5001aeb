"""Raises the overlap of a queue while people work in it.

Desks are locked before items, in the order of `desk.assignments`, and all of them first, so that nobody is in the middle of claiming a slot.
"""

from django.db.models import Count, QuerySet
from django.db.models.functions import Greatest

from apps.annotation.models import Desk, Item, ItemAssignee, Queue
from apps.annotation.refusals import Refusal


class FewerPeople(Refusal):
    code = "fewer_people"

    def __init__(self, requested: int, overlap: int) -> None:
        super().__init__(
            f"Got {requested}, but {overlap} people judge each item of this queue, and their judgments are kept. "
            f"Give {overlap} or more."
        )


class FixedByPlan(Refusal):
    code = "fixed_by_plan"
    message = (
        "The plan of its experiment fixed how many people judge each pair before the first answer was seen; that is what "
        "makes its verdict hold. Start another experiment to ask more people."
    )


class TooFewNamed(Refusal):
    code = "too_few_named"

    def __init__(self, overlap: int) -> None:
        super().__init__(f"Some items are assigned to fewer than {overlap} people. Assign them to more people first.")


def raise_overlap(*, queue: Queue, overlap: int) -> None:
    """Add slots to every item of `queue`, whose row the caller has locked and changes.

    Gold and onboarding items already have slots for everybody. Raises FewerPeople, FixedByPlan, TooFewNamed.
    """
    if overlap < queue.overlap:
        raise FewerPeople(overlap, queue.overlap)
    if queue.is_of_experiment:
        raise FixedByPlan
    assignee_counts = ItemAssignee.objects.filter(queue=queue).values("item").annotate(people=Count("pk"))
    if overlap > queue.overlap and assignee_counts.filter(people__lt=overlap).exists():
        raise TooFewNamed(overlap)
    desks = Desk.objects.filter(queue=queue)
    _lock(desks)
    desks.update(position=0)  # items that were full have slots again
    items = Item.objects.filter(queue=queue, purpose=Item.Purpose.WORK)
    _lock(items)
    items.update(overlap=Greatest(overlap, "taken"))  # imported judgments may exceed the overlap


def _lock(rows: QuerySet[Desk] | QuerySet[Item]) -> None:
    """Locks in a consistent order; doesn't block inserts that reference these rows."""
    list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk"))
