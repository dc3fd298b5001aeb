"""Asking more people about every item of a queue, while others are at work there.

Desks are locked before items, as `desk.assignments` says, and all of them first: nobody is half-way through taking a place meanwhile.
"""

from django.db.models import Count, QuerySet
from django.db.models.functions import Greatest

from apps.annotation.models import Desk, Item, ItemAssignee, Queue
from apps.annotation.refusals import Refusal


class FewerPeople(Refusal):
    code = "fewer_people"

    def __init__(self, asked: int, overlap: int) -> None:
        super().__init__(
            f"{asked} was asked for, but this queue has {overlap} people judge each item, and what was judged stays. "
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
    """Open places for more people on every item of `queue`, whose row the caller has locked and changes.

    Known items have places for everybody as it is. Raises FewerPeople, FixedByPlan, TooFewNamed.
    """
    if overlap < queue.overlap:
        raise FewerPeople(overlap, queue.overlap)
    if queue.is_of_experiment:
        raise FixedByPlan
    named = ItemAssignee.objects.filter(queue=queue).values("item").annotate(people=Count("pk"))
    if overlap > queue.overlap and named.filter(people__lt=overlap).exists():
        raise TooFewNamed(overlap)
    desks = Desk.objects.filter(queue=queue)
    _lock(desks)
    desks.update(position=0)  # what they went past, because it was full, has a place again
    items = Item.objects.filter(queue=queue, purpose=Item.Purpose.WORK)
    _lock(items)
    items.update(overlap=Greatest(overlap, "taken"))  # of imported judgments there may be more


def _lock(rows: QuerySet[Desk] | QuerySet[Item]) -> None:
    """In one order, as whoever locks several does; not against rows that refer to these, which come meanwhile."""
    list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk"))
