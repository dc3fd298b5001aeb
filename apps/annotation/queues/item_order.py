"""Active learning: orders items by how informative a judgment is, based on machine annotators (reward models, served models)."""

from collections import defaultdict

from django.db import transaction
from django.db.models import Max, Q

from apps.accounts.models import User
from apps.annotation.audit import record
from apps.annotation.models import Item, JudgeAnswer, Queue
from apps.annotation.queues.informativeness import chance_of_margin, informative, uncertain
from apps.annotation.queues.overlap import FixedByPlan
from apps.annotation.refusals import Refusal

LIKELY = {0: 0.5, 1: 0.65, 2: 0.82, 3: 0.95}
"""The probability that the preferred trajectory is better, by grade, for models that give no margin."""


class NothingSaid(Refusal):
    code = "nothing_said"
    message = "No two models have judged the waiting items. Add two reward models or served models under Models first."


class OrderFixedByPlan(FixedByPlan):
    message = (
        "The plan of its experiment drew the order of its pairs. The experiment may end after any of them, so its verdict would be about those that "
        "come first."
    )


SCORES = {Queue.Order.UNCERTAIN: uncertain, Queue.Order.INFORMATIVE: informative}


@transaction.atomic
def reorder(*, queue: Queue, order: str, by: User | None) -> int:
    """Move waiting items, highest score first, behind those in progress; returns how many items have a score. Raises NothingSaid, OrderFixedByPlan.

    Judgments and current holds are kept. The new positions lie beyond all old ones, so that desks find them.
    """
    locked = Queue.objects.select_for_update(no_key=True).get(pk=queue.pk)
    if locked.is_of_experiment:
        raise OrderFixedByPlan
    score = SCORES[Queue.Order(order)]
    chances = chances_of(locked)
    scored = {item: score(probabilities) for item, probabilities in chances.items() if len(probabilities) > 1}
    waiting = list(
        Item.objects.filter(queue=locked, purpose=Item.Purpose.WORK, taken=0)
        .order_by("position")
        .values_list("pk", flat=True)
    )
    moved = [item for item in waiting if item in scored]
    if not moved:
        raise NothingSaid
    ranked = sorted(moved, key=lambda item: -scored[item]) + [item for item in waiting if item not in scored]
    beyond = (Item.objects.filter(queue=locked).aggregate(most=Max("position"))["most"] or 0) + 1
    Item.objects.bulk_update(
        [Item(pk=item, position=beyond + rank) for rank, item in enumerate(ranked)], ["position"], batch_size=2000
    )
    Queue.objects.filter(pk=locked.pk).update(order=order)
    record(locked, by, "changed the order of", order=order, scored=len(moved), waiting=len(waiting))
    return len(moved)


def chances_of(queue: Queue) -> dict[int, list[float]]:
    """For each unseen item, the models' probabilities that trajectory a is better."""
    answers = JudgeAnswer.objects.usable().filter(Q(item__taken=0), judge__queue=queue).order_by("judge", "pk")
    probabilities: dict[int, list[float]] = defaultdict(list)
    for item, margin, strength in answers.values_list("item", "margin", "strength"):
        probabilities[item].append(chance_of_margin(margin) if margin is not None else _from_grade(strength))
    return probabilities


def _from_grade(strength: int) -> float:
    likely = LIKELY[abs(strength)]
    return likely if strength >= 0 else 1 - likely
