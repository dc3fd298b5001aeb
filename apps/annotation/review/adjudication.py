"""Decides disputed items, stores the discussion with annotators, and collects remarks on a trajectory's steps."""

from collections.abc import Iterable
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.timezone import now

from apps.accounts.models import User
from apps.annotation.audit import record
from apps.annotation.kinds import KINDS, kind_of
from apps.annotation.kinds.kind import StepRemark
from apps.annotation.models import Adjudication, Annotator, Item, Judgment, Queue, Remark
from apps.annotation.refusals import Refusal


class NoReason(Refusal):
    code = "no_reason"
    message = "Give a reason: the people who judged it read it and learn from it."


class NotJudged(Refusal):
    code = "not_judged"
    message = "Nobody has judged this item yet, so there is nothing to decide."


class NotAmongThem(Refusal):
    code = "not_among_them"
    message = "That judgment of this item was withdrawn. Reload the page and choose again."


class DecidedMeanwhile(Refusal):
    code = "decided_meanwhile"
    message = "This item was decided meanwhile. The decision is shown here; decide again to replace it."


class NotYours(Refusal):
    code = "not_yours"
    message = "You have no judgment of this item."


def undecided() -> QuerySet[Item]:
    """Disputed items without a decision, of all queues."""
    decided = Adjudication.objects.valid().filter(item=OuterRef("pk"))
    return Item.objects.filter(~Exists(decided), disputed=True)


def awaiting_review(queue: Queue) -> QuerySet[Item]:
    """Those of one queue, in its order."""
    return undecided().filter(queue=queue).order_by("position")


@transaction.atomic
def adjudicate(
    *,
    item: Item,
    by: User,
    reason: str,
    strength: int | None = None,
    both_bad: bool = False,
    upheld: UUID | None = None,
    blind: bool = True,
    replaces: str | None = None,
) -> Adjudication:
    """Decide an item: a pair by `strength` in favor of trajectory a, others by the judgment that is `upheld`.

    Withdraws a previous decision. Repeating the same decision returns the existing one. Raises Refusal.

    replaces: the id of the decision that the reviewer saw, "" for none; another one in its place is DecidedMeanwhile. None: whichever it is.
    """
    if not reason.strip():
        raise NoReason
    locked = Item.objects.select_for_update(of=("self",)).select_related("queue").get(pk=item.pk)
    kind = kind_of(locked)
    valid = set(kind.valid_judgments.filter(item=locked).values_list("pk", flat=True))
    if not valid:
        raise NotJudged
    if not kind.reviewers_answer and upheld not in valid:
        raise NotAmongThem
    answer = {"strength": strength, "both_bad": both_bad, "upheld": upheld, "reason": reason.strip()}
    before = Adjudication.objects.valid().filter(item=locked)
    same = before.filter(by=by, **answer).first()
    if same:
        return same
    current = before.values_list("pk", flat=True).first()
    if replaces is not None and current and replaces != str(current):
        raise DecidedMeanwhile
    before.update(retracted_at=now())
    adjudication = Adjudication.objects.create(
        workspace_id=locked.queue.workspace_id, queue=locked.queue, item=locked, by=by, was_blind=blind, **answer
    )
    record(
        locked.queue,
        by,
        "decided an item of",
        item=locked.pk,
        strength=strength,
        both_bad=both_bad,
        upheld=str(upheld or ""),
    )
    return adjudication


@transaction.atomic
def remark(*, item: Item, annotator: Annotator, by: User, text: str) -> Remark:
    """Add a remark on `annotator`'s judgment of `item`: by a reviewer, or in reply by the annotator. Raises NotYours."""
    if not kind_of(item).model.objects.filter(item=item, annotator=annotator).exists():
        raise NotYours
    if not text.strip():
        raise NoReason("Write something first.")
    return Remark.objects.create(
        workspace_id=annotator.workspace_id,
        queue_id=item.queue_id,
        item=item,
        annotator=annotator,
        by=by,
        text=text.strip(),
    )


def remarks_in(judgments: Iterable[Judgment]) -> list[StepRemark]:
    """The statements of these judgments about single steps, in step order; the number of queries is constant."""
    judgments = list(judgments)
    remarks: list[StepRemark] = []
    for kind in KINDS.values():
        if judgments_of_kind := {judgment.pk: judgment for judgment in judgments if isinstance(judgment, kind.model)}:
            remarks += kind.remarks(judgments_of_kind)
    return sorted(remarks)
