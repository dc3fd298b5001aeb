"""What a researcher asks of one annotator at one queue: to stop for now, to go on, to learn again."""

from django.db import transaction
from django.db.models import F
from django.utils.timezone import now

from apps.accounts.models import User
from apps.annotation.audit import record
from apps.annotation.desk.assignments import lock_desk
from apps.annotation.kinds import kind_of
from apps.annotation.models import Annotator, Assignment, Desk, Item, Queue
from apps.annotation.queues.known_answers import NoTrainingItems


@transaction.atomic
def pause_annotator(*, queue: Queue, annotator: Annotator, reason: str, by: User | None) -> None:
    """Give this annotator nothing more here until `resume_annotator`; they read the reason. What is in hand they may still finish."""
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    desk.paused_at, desk.pause_reason = desk.paused_at or now(), reason
    desk.save(update_fields=["paused_at", "pause_reason"])
    _audit(desk, by, "paused", reason)


@transaction.atomic
def resume_annotator(*, queue: Queue, annotator: Annotator, by: User | None) -> None:
    """Give this annotator items here again."""
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    desk.paused_at, desk.pause_reason = None, ""
    desk.save(update_fields=["paused_at", "pause_reason"])
    _audit(desk, by, "resumed")


@transaction.atomic
def retrain_annotator(*, queue: Queue, annotator: Annotator, by: User | None) -> None:
    """Send this annotator through the training items once more, before anything else. Raises NoTrainingItems.

    Their earlier answers to them stay, marked as taken back.
    """
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    if not queue.training_count:
        raise NoTrainingItems
    learnt = Assignment.objects.select_for_update(of=("self",)).filter(
        queue=queue, annotator=annotator, state=Assignment.State.JUDGED, item__purpose=Item.Purpose.TRAINING
    )
    ids = list(learnt.values_list("pk", flat=True))
    kind_of(queue).model.objects.filter(assignment__in=ids).update(retracted_at=now())
    items = Item.objects.filter(assignments__in=ids)
    for item in Item.objects.select_for_update().filter(pk__in=items.values("pk")).order_by("pk"):
        Item.objects.filter(pk=item.pk).update(taken=F("taken") - 1, judged=F("judged") - 1)
    Assignment.objects.filter(pk__in=ids).update(state=Assignment.State.UNDONE)
    desk.trained = desk.trained_right = 0
    desk.save(update_fields=["trained", "trained_right"])
    _audit(desk, by, "asked for more training of")


def _audit(desk: Desk, by: User | None, action: str, reason: str = "") -> None:
    record(desk.queue, by, action, who=desk.annotator, about=desk.annotator, queue=str(desk.queue_id), reason=reason)
