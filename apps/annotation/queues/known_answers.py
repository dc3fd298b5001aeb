"""Makes items gold or onboarding items by giving them a known answer, and reverts that. Only items that nobody has seen."""

from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils.timezone import now

from apps.accounts.models import User
from apps.annotation.audit import record
from apps.annotation.kinds import kind_of
from apps.annotation.models import Assignment, Item, ItemAssignee, Queue
from apps.annotation.models.items import FOR_ALL
from apps.annotation.queues.overlap import FixedByPlan
from apps.annotation.refusals import Refusal

COUNTERS = {Item.Purpose.WORK: "item_count", Item.Purpose.GOLD: "gold_count", Item.Purpose.ONBOARDING: "training_count"}


class SeenAlready(Refusal):
    code = "seen_already"
    message = "Somebody has this item or has judged it, so its purpose cannot change any more. Choose one that nobody has seen."


class StillFilling(Refusal):
    code = "still_filling"
    message = "The queue is still being filled. Wait until it is open."


class NoOutcomeKnown(Refusal):
    code = "no_outcome_known"
    message = "No unseen item's answer is known from its outcome: that takes pairs in which one trajectory succeeded and the other failed."


class PairsFixedByPlan(FixedByPlan):
    message = (
        "The plan of its experiment fixed which pairs are judged, and each of them counts in its verdict. A known answer "
        "would take this one out. Create a separate queue for gold and onboarding items."
    )


class NoOnboardingItems(Refusal):
    code = "no_training_items"
    message = (
        "This queue has no onboarding items. Create some first: open an item that nobody has seen and give its answer."
    )


@transaction.atomic
def make_known(*, item: Item, purpose: Item.Purpose, answer: int | str, because: str = "", by: User | None) -> None:
    """Make an unseen item gold or onboarding, with its answer and, for onboarding, the explanation.

    Raises SeenAlready, StillFilling, PairsFixedByPlan, NoSuchStep.
    """
    kind_of(item).check_known_answer(answer, item.a)
    _change(item, purpose, {"answer": answer, "because": because}, by)


@transaction.atomic
def make_work(*, item: Item, by: User | None) -> None:
    """Make an unseen gold or onboarding item an ordinary one again. Raises SeenAlready."""
    _change(item, Item.Purpose.WORK, None, by)


@transaction.atomic
def draw_gold(*, queue: Queue, count: int, by: User | None) -> int:
    """Make up to `count` unseen items gold whose answer follows from their trajectories' outcomes; returns how many.

    Raises NoOutcomeKnown, PairsFixedByPlan.
    They're spread over the whole queue, ordered by a hash.
    """
    if queue.is_of_experiment:
        raise PairsFixedByPlan
    kind = kind_of(queue)
    if kind.outcome_decides is None:
        raise NoOutcomeKnown(kind.outcome_rule)
    unseen = Item.objects.filter(
        ~Exists(_shown_assignments(OuterRef("pk"))), queue=queue, purpose=Item.Purpose.WORK, taken=0
    )
    gold_items = (
        unseen.filter(kind.outcome_decides)
        .select_related("a")
        .order_by("a__content_hash", "pk")
        .only("queue", "a__success")
    )
    drawn = 0
    for item in gold_items[:count]:
        gold_answer = {"answer": 1 if item.a.success else -1, "because": "Known from how the trajectories ended."}
        try:
            _change(item, Item.Purpose.GOLD, gold_answer, by)
        except SeenAlready:
            continue  # it was assigned to somebody meanwhile
        drawn += 1
    if not drawn:
        raise NoOutcomeKnown
    return drawn


def _shown_assignments(item: int | OuterRef) -> QuerySet[Assignment]:
    """Assignments in which somebody saw the item, even if they skipped it or went away."""
    return Assignment.objects.filter(item=item, opened_at__isnull=False)


def _change(item: Item, purpose: Item.Purpose, known: dict[str, Any] | None, by: User | None) -> None:
    queue = Queue.objects.select_for_update(no_key=True).get(pk=item.queue_id)
    if queue.state == Queue.State.FILLING:
        raise StillFilling
    if queue.is_of_experiment and purpose != Item.Purpose.WORK:
        raise PairsFixedByPlan
    before = Item.objects.select_for_update().get(pk=item.pk)
    if before.taken or before.judged or _shown_assignments(item.pk).exists():
        raise SeenAlready
    Item.objects.filter(pk=item.pk).update(
        purpose=purpose,
        known=known,
        overlap=queue.overlap if purpose == Item.Purpose.WORK else FOR_ALL,
        returned_at=now(),
    )
    if purpose != Item.Purpose.WORK:
        ItemAssignee.objects.filter(item=item.pk).delete()  # everybody gets it
    Queue.objects.filter(pk=queue.pk).update(
        **{COUNTERS[Item.Purpose(before.purpose)]: F(COUNTERS[Item.Purpose(before.purpose)]) - 1}
    )
    Queue.objects.filter(pk=queue.pk).update(**{COUNTERS[purpose]: F(COUNTERS[purpose]) + 1})
    record(queue, by, "changed an item of", item=item.pk, became=purpose.value, known=known)
