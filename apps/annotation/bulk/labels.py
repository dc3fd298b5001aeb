"""One label for many trajectories: a closed queue in which one person has judged each."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F
from django.utils.timezone import now

from apps.accounts.models import Membership
from apps.annotation.audit import record
from apps.annotation.desk.actions import is_disputed
from apps.annotation.desk.assignments import annotator_of, lock_desk
from apps.annotation.kinds import KINDS
from apps.annotation.kinds.answers import Scores
from apps.annotation.kinds.kind import Submission
from apps.annotation.kinds.questions import RatingAsks
from apps.annotation.models import Adjudication, Assignment, BulkAct, Desk, Item, Queue, Rating
from apps.annotation.queues.queue_lifecycle import create_queue_of_trajectories
from apps.annotation.queues.sources import Selection, selected
from apps.annotation.refusals import Refusal

MAX_TRAJECTORIES = 5_000
THUMBS = {1: "good", -1: "bad"}


class TooMany(Refusal):
    code = "too_many"
    message = f"More than {MAX_TRAJECTORIES:,} trajectories match. Narrow the filter, and label them in parts."


class NothingSelected(Refusal):
    code = "nothing_selected"
    message = "No trajectory matches, so there's nothing to label."


class CountChanged(Refusal):
    code = "count_changed"

    def __init__(self, seen: int, current: int) -> None:
        super().__init__(f"{seen:,} trajectories were shown, and {current:,} match now. Check them, and label again.")


@transaction.atomic
def label_all(*, member: Membership, selection: Selection, thumb: int, seen: int, reason: str = "") -> BulkAct:
    """Judge each of the selected trajectories good (+1) or bad (−1) in the member's name. seen: the number that the member was shown.

    Raises NothingSelected, TooMany, CountChanged, BadFilter.
    """
    matches = selected(member.workspace, selection).order_by("pk").only("id", "task_id")
    trajectories = list(matches[: MAX_TRAJECTORIES + 1])
    if not trajectories:
        raise NothingSelected
    if len(trajectories) > MAX_TRAJECTORIES:
        raise TooMany
    if len(trajectories) != seen:
        raise CountChanged(seen, len(trajectories))
    description = (
        f"Labeled {len(trajectories):,} trajector{'y' if len(trajectories) == 1 else 'ies'} as {THUMBS[thumb]}"
    )
    queue = create_queue_of_trajectories(
        kind=Queue.Kind.RATING,
        trajectories=trajectories,
        workspace=member.workspace,
        created_by=member.user,
        name=f"{description}, {now():%Y-%m-%d %H:%M}",
        selection={"selection": selection.to_json()},
        asks=RatingAsks(questions=(), marks=False),
    )
    Queue.objects.filter(pk=queue.pk).update(state=Queue.State.CLOSED)
    _judge_all(queue, member, Scores(thumb=thumb, rationale=reason))
    record(queue, member.user, "labeled in bulk", trajectories=len(trajectories), label=THUMBS[thumb])
    return BulkAct.objects.create(
        workspace=member.workspace,
        kind=BulkAct.Kind.LABEL,
        queue=queue,
        by=member.user,
        words=description,
        count=len(trajectories),
        created_at=now(),  # undo compares it with when the labels were made, and the database's clock may be behind
    )


def _judge_all(queue: Queue, member: Membership, answer: Scores) -> None:
    annotator = annotator_of(member)
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    closed_at = now()
    items = list(Item.objects.filter(queue=queue).order_by("position"))
    assignments = [Assignment.already_judged(queue, item, annotator, closed_at) for item in items]
    Item.objects.filter(queue=queue).update(taken=1, judged=1)
    Assignment.objects.bulk_create(assignments, batch_size=2000)
    KINDS[queue.kind].store([Submission(assignment, answer) for assignment in assignments])
    Desk.objects.filter(pk=desk.pk).update(judged=len(items))


def withdraw_labels(act: BulkAct) -> None:
    """Mark all judgments of this action as withdrawn. The caller has locked it."""
    assignments = Assignment.objects.filter(
        queue=act.queue_id, annotator__user=act.by_id, state=Assignment.State.JUDGED, closed_at__lte=act.created_at
    )
    desks = Desk.objects.select_for_update().filter(queue=act.queue_id, annotator__user=act.by_id)
    for desk in desks:
        ids = list(assignments.values_list("pk", flat=True))
        # First, since it waits for reviewers who are deciding these items; decisions made until then are withdrawn, too.
        items = Item.objects.filter(assignments__in=ids)
        items.update(taken=F("taken") - 1, judged=F("judged") - 1)
        retracted = Rating.objects.valid().filter(assignment__in=ids)
        upheld = list(retracted.values_list("pk", flat=True))
        retracted.update(retracted_at=now())
        Adjudication.objects.valid().filter(queue=act.queue_id, upheld__in=upheld).update(retracted_at=now())
        # Others may have judged them, too, if the queue was opened again with a higher overlap.
        settled = [item.pk for item in items.filter(disputed=True) if not is_disputed(item)]
        Item.objects.filter(pk__in=settled).update(disputed=False)
        Assignment.objects.filter(pk__in=ids).update(state=Assignment.State.UNDONE)
        desk.judged -= len(ids)
        desk.save(update_fields=["judged"])
