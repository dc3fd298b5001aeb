"""Converts imported judgments into judgments of Retrace: a closed queue, filled by a worker a few tasks at a time.

Each item's judgments come from the columns of its trajectories, interpreted by `meanings`. A filling that was killed resumes after its last batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, F, QuerySet, When
from django.utils.timezone import now

from apps.accounts.models import User, Workspace
from apps.annotation.audit import record
from apps.annotation.imported_judgments.adoptable import trajectories_of
from apps.annotation.imported_judgments.records import JUDGED_TWICE, ImportedItem, items_in
from apps.annotation.kinds import KINDS, kind_of
from apps.annotation.kinds.kind import Submission
from apps.annotation.kinds.meanings import Meanings
from apps.annotation.models import Annotator, Assignment, Desk, Item, Queue
from apps.annotation.queues.sources import Selection, selected
from apps.annotation.refusals import Refusal
from apps.common.broker import enqueue
from apps.jobs.models import JobState
from apps.trajectories.models import ImportBatch
from apps.trajectories.outlines import visible

TASKS_A_BATCH = 500
MAX_NAME_LENGTH = 200
"""Of an annotator's name, which is cut; the column's maximum."""


class SaysNothing(Refusal):
    code = "says_nothing"
    message = "No value has a meaning yet, so there is nothing to import. Say what at least one value means."


class StillImporting(Refusal):
    code = "still_importing"
    message = "This import isn't finished. Wait until it ends, or resume it, so that all of its judgments are there."


def selection_of(batch: ImportBatch) -> Selection:
    """Everything that an import brought in. Raises StillImporting."""
    if batch.state != JobState.DONE:
        raise StillImporting
    return Selection(filter=_filter_of(batch))


def adopted_from(batch: ImportBatch) -> QuerySet[Queue]:
    """The queues created from this import's judgments, newest first."""
    queues = Queue.objects.filter(workspace=batch.workspace_id, selection__has_key="adopted")
    return queues.filter(selection__selection__filter=_filter_of(batch)).order_by("-pk")


def _filter_of(batch: ImportBatch) -> str:
    return f"batch={batch.pk}"


@transaction.atomic
def adopt(
    *,
    workspace: Workspace,
    selection: Selection,
    name: str,
    source: str,
    meanings: Meanings,
    judged_by: str,
    by: User | None,
) -> Queue:
    """A queue of the judgments in the selected trajectories' columns: each verdict becomes a judgment by an annotator of kind `judged_by` from `source`.

    A worker fills it. Raises SaysNothing, BadFilter.
    """
    if not meanings.columns:
        raise SaysNothing
    kind, trajectories = KINDS[meanings.kind], selected(workspace, selection)
    until = trajectories.order_by("-pk").values_list("pk", flat=True).first()
    queue = Queue.objects.create(
        workspace=workspace,
        created_by=by,
        name=name,
        kind=meanings.kind,
        asks=kind.imported_asks.to_json(),
        state=Queue.State.FILLING,
        overlap=max(1, sum(column.is_somebody for column in meanings.columns)),
        selection={
            "selection": replace(selection, until=until).to_json(),
            "adopted": {"source": source, "meanings": meanings.to_json(), "judged_by": judged_by, "left_out": {}},
        },
        items_expected=trajectories.count() // len(kind.trajectory_names),
        filling_at=now(),
    )
    record(queue, by, "adopted judgments", source=source)
    enqueue("queues.fill", str(queue.pk))
    return queue


def fill_batch(queue: Queue) -> bool:
    """Add the items and judgments of the next tasks of a queue whose row the caller has locked; False at the end."""
    adopted = queue.selection["adopted"]
    trajectories = trajectories_of(queue.workspace, Selection.from_json(queue.selection["selection"]))
    beyond = trajectories.filter(task_id__gt=queue.filled_to) if queue.filled_to else trajectories
    tasks = list(beyond.order_by("task_id").values_list("task_id", flat=True).distinct()[:TASKS_A_BATCH])
    left_out: Counter[str] = Counter(adopted["left_out"])
    if not tasks:
        _end(queue, left_out)
        return False
    in_order = trajectories.filter(task_id__in=tasks).order_by("task_id", "pk")
    items = list(items_in(in_order, Meanings.from_json(adopted["meanings"]), left_out))
    for item in items:
        _name_annotators(item, adopted["source"], left_out)
    _store(queue, items, judged_by=adopted["judged_by"], source=adopted["source"])
    adopted["left_out"] = dict(+left_out)
    queue.filled_to, queue.item_count = tasks[-1], queue.item_count + len(items)
    return True


def _name_annotators(item: ImportedItem, source: str, left_out: Counter[str]) -> None:
    """Key the judgments by the annotators' names as they're stored. Two may have the same, such as the source's, which those without a name get."""
    judgments: dict[str, Any] = {}
    for name, answer in item.judgments.items():
        shown = visible(name or source)[:MAX_NAME_LENGTH]
        left_out[JUDGED_TWICE] += shown in judgments
        judgments.setdefault(shown, answer)
    item.judgments = judgments


def _end(queue: Queue, left_out: Counter[str]) -> None:
    """Close the queue. More people can judge its items once it's reopened with a higher overlap."""
    queue.state = Queue.State.CLOSED if queue.item_count else Queue.State.FAILED
    reasons = ", ".join(f"{count:,} {why}" for why, count in left_out.items())
    queue.error = (
        "" if queue.item_count else f"Nothing became a judgment: {reasons or 'its trajectories were deleted'}."
    )


def _store(queue: Queue, imported: Sequence[ImportedItem], *, judged_by: str, source: str) -> None:
    kind = kind_of(queue)
    items = [
        Item(
            queue=queue,
            kind=queue.kind,
            task_id=imported_item.task,
            a_id=imported_item.a,
            b_id=imported_item.b,
            position=queue.item_count + index,
            overlap=max(queue.overlap, len(imported_item.judgments)),
            taken=len(imported_item.judgments),
            judged=len(imported_item.judgments),
            disputed=len({kind.stance(answer) for answer in imported_item.judgments.values()} - {None}) > 1,
        )
        for index, imported_item in enumerate(imported)
    ]
    Item.objects.bulk_create(items, batch_size=2000)
    annotators = _annotators(
        queue, {name for imported_item in imported for name in imported_item.judgments}, judged_by, source
    )
    closed_at = now()
    submissions = [
        Submission(Assignment.already_judged(queue, item, annotators[name], closed_at), answer, has_sides=False)
        for item, imported_item in zip(items, imported, strict=True)
        for name, answer in imported_item.judgments.items()
    ]
    Assignment.objects.bulk_create([submission.assignment for submission in submissions], batch_size=2000)
    kind.store(submissions)
    _count(queue, Counter(submission.assignment.annotator_id for submission in submissions))


def _count(queue: Queue, judged: Counter[UUID]) -> None:
    """Update the annotators' counts in two statements, however many annotators there are: data sets have hundreds of thousands."""
    desks = (Desk(queue=queue, annotator_id=annotator) for annotator in sorted(judged))
    Desk.objects.bulk_create(desks, ignore_conflicts=True)
    more = Case(*(When(annotator_id=annotator, then=count) for annotator, count in judged.items()), default=0)
    Desk.objects.filter(queue=queue, annotator__in=judged).update(judged=F("judged") + more)


def _annotators(queue: Queue, names: set[str], kind: str, source: str) -> dict[str, Annotator]:
    """The annotators with these names, created if missing."""
    existing_annotators = Annotator.objects.filter(workspace_id=queue.workspace_id, source=source, kind=kind)
    annotators = {annotator.name: annotator for annotator in existing_annotators.filter(name__in=names)}
    if new := names - annotators.keys():
        new_annotators = (
            Annotator(workspace_id=queue.workspace_id, source=source, kind=kind, name=name) for name in sorted(new)
        )
        Annotator.objects.bulk_create(new_annotators, ignore_conflicts=True)
        annotators |= {annotator.name: annotator for annotator in existing_annotators.filter(name__in=new)}
    return annotators
