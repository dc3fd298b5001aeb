"""Creating queues and changing their state."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import User, Workspace
from apps.annotation.audit import record
from apps.annotation.desk.assignments import has_ended
from apps.annotation.kinds import KINDS
from apps.annotation.kinds.pair_selection import Pair, Pairing
from apps.annotation.kinds.questions import Asks
from apps.annotation.models import Guideline, Item, Queue
from apps.annotation.queues.sources import Selection, preview_of, selected
from apps.annotation.refusals import Refusal
from apps.common.broker import enqueue
from apps.trajectories.models import Trajectory
from apps.webhooks.events import EventType
from apps.webhooks.outbox import announce

MAX_ITEMS = 1_000_000


class TooManyItems(Refusal):
    code = "too_many_items"

    def __init__(self, count: int) -> None:
        super().__init__(
            f"These are {count:,} items; a queue has {MAX_ITEMS:,} at most. Take fewer of each task, or narrow the filter."
        )


class WrongState(Refusal):
    code = "wrong_state"


class EndHasCome(Refusal):
    code = "end_has_come"
    message = (
        "Its end date has passed, or it has the number of judgments after which it ends. Change or remove that in its settings, then open the queue "
        "again."
    )


@transaction.atomic
def create_queue(
    *,
    workspace: Workspace,
    created_by: User | None,
    name: str,
    selection: Selection,
    pairing: Pairing,
    overlap: int = 1,
    lease_seconds: int = 1200,
    order: str = Queue.Order.FIFO,
    skipped_come_back: bool = False,
    guidelines: str = "",
    kind: str = Queue.Kind.PAIRWISE,
    asks: Asks | None = None,
) -> Queue:
    """A queue from a selection of trajectories; a worker fills it.

    Raises NothingToCompare or NothingToJudge if there would be no items, and TooManyItems.

    `pairing` says which trajectories of a task are compared with each other or, if they're judged individually, how many there are.
    """
    newest = selected(workspace, selection).order_by("-pk").values_list("pk", flat=True).first()
    selection = Selection(ids=selection.ids, filter=selection.filter, until=newest)
    expected = preview_of(workspace, selection, pairing, kind).items
    if not expected:
        raise KINDS[kind].nothing_to_do
    if expected > MAX_ITEMS:
        raise TooManyItems(expected)
    queue = Queue.objects.create(
        workspace=workspace,
        created_by=created_by,
        name=name,
        kind=kind,
        asks=asks.to_json() if asks else {},
        state=Queue.State.FILLING,
        order=order,
        overlap=overlap,
        lease_seconds=lease_seconds,
        skipped_come_back=skipped_come_back,
        selection={"selection": selection.to_json(), "pairing": pairing.to_json()},
        items_expected=expected,
        filling_at=now(),
    )
    if guidelines.strip():
        revise_guidelines(queue=queue, text=guidelines, by=created_by)
    record(queue, created_by, "made queue", items=expected, overlap=overlap)
    enqueue("queues.fill", str(queue.pk))
    return queue


def create_queue_of_pairs(*, pairs: Iterable[Pair], **settings: Any) -> Queue:
    """An open queue of exactly these pairs, in this order; `settings` as for `create_queue_of_trajectories`."""
    items = (
        Item(position=position, task_id=pair.task, a_id=pair.a, b_id=pair.b) for position, pair in enumerate(pairs)
    )
    return _create_open(kind=Queue.Kind.PAIRWISE, items=items, **settings)


@transaction.atomic
def add_pairs(*, queue: Queue, pairs: Sequence[Pair]) -> None:
    """Append pairs to a queue, whatever its progress. Raises TooManyItems."""
    locked = Queue.objects.select_for_update().get(pk=queue.pk)
    count = locked.item_count + len(pairs)
    if count > MAX_ITEMS:
        raise TooManyItems(count)
    Item.objects.bulk_create(
        [
            Item(
                queue=locked,
                kind=locked.kind,
                overlap=locked.overlap,
                position=position,
                task_id=pair.task,
                a_id=pair.a,
                b_id=pair.b,
            )
            for position, pair in enumerate(pairs, start=locked.item_count)
        ],
        batch_size=1000,
    )
    Queue.objects.filter(pk=queue.pk).update(item_count=count, items_expected=count)


def create_queue_of_trajectories(*, kind: Queue.Kind, trajectories: Iterable[Trajectory], **settings: Any) -> Queue:
    """An open queue of exactly these trajectories, in this order, each judged individually.

    workspace, created_by, name; overlap, lease_seconds, guidelines, selection, asks. Annotators see the name, so it mustn't
    reveal the policies.
    """
    items = (
        Item(position=position, task_id=trajectory.task_id, a_id=trajectory.pk)
        for position, trajectory in enumerate(trajectories)
    )
    return _create_open(kind=kind, items=items, **settings)


@transaction.atomic
def _create_open(
    *,
    workspace: Workspace,
    created_by: User | None,
    name: str,
    kind: Queue.Kind,
    items: Iterable[Item],
    overlap: int = 1,
    lease_seconds: int = 1200,
    guidelines: str = "",
    selection: dict[str, Any] | None = None,
    asks: Asks | None = None,
) -> Queue:
    queue = Queue.objects.create(
        workspace=workspace,
        created_by=created_by,
        name=name,
        kind=kind,
        state=Queue.State.OPEN,
        overlap=overlap,
        lease_seconds=lease_seconds,
        selection=selection or {},
        asks=asks.to_json() if asks else {},
    )
    items_list = list(items)
    if not items_list:
        raise KINDS[kind].nothing_to_do
    for item in items_list:
        item.queue, item.kind, item.overlap = queue, kind, overlap
    Item.objects.bulk_create(items_list, batch_size=1000)
    Queue.objects.filter(pk=queue.pk).update(item_count=len(items_list), items_expected=len(items_list))
    queue.item_count = queue.items_expected = len(items_list)
    if guidelines.strip():
        revise_guidelines(queue=queue, text=guidelines, by=created_by)
    record(queue, created_by, "made queue", items=len(items_list), overlap=overlap)
    return queue


@transaction.atomic
def revise_guidelines(*, queue: Queue, text: str, by: User | None) -> Guideline:
    """Add a version of the guidelines if they changed. Judgments refer to the version that their author saw."""
    Queue.objects.select_for_update().get(pk=queue.pk)  # serializes concurrent edits
    latest = queue.guidelines.order_by("-version").first()
    if latest and latest.text == text:
        return latest
    return Guideline.objects.create(queue=queue, version=latest.version + 1 if latest else 1, text=text, created_by=by)


def pause_queue(*, queue: Queue, by: User | None) -> None:
    """Stop assigning new items. Answers to current assignments are still accepted."""
    _change_state(queue, by, "paused queue", to=Queue.State.PAUSED, only_from=[Queue.State.OPEN])


def resume_queue(*, queue: Queue, by: User | None) -> None:
    """Assign items again. Raises EndHasCome, since a periodic task would close it a moment later."""
    if has_ended(queue):
        raise EndHasCome
    _change_state(queue, by, "resumed queue", to=Queue.State.OPEN, only_from=[Queue.State.PAUSED, Queue.State.CLOSED])


def close_queue(*, queue: Queue, by: User | None) -> None:
    """End a queue, whether or not everything is judged. Its judgments are kept; a filling in progress stops."""
    steerable = [Queue.State.FILLING, Queue.State.FAILED, Queue.State.OPEN, Queue.State.PAUSED]
    _change_state(queue, by, "closed queue", to=Queue.State.CLOSED, only_from=steerable)


@transaction.atomic
def _change_state(queue: Queue, by: User | None, action: str, *, to: Queue.State, only_from: list[Queue.State]) -> None:
    changed = Queue.objects.filter(pk=queue.pk, state__in=only_from).update(state=to)
    if not changed:
        queue.refresh_from_db(fields=["state"])
        raise WrongState(f"This queue is {queue.get_state_display().lower()}; reload the page to see it as it is now.")
    queue.state = to
    record(queue, by, action)
    if to == Queue.State.CLOSED:
        _announce_closed(queue)


def _announce_closed(queue: Queue) -> None:
    """Announce to webhooks that a queue takes no more judgments. An experiment's queue is covered by the experiment's own event."""
    announce(
        EventType.QUEUE_CLOSED,
        workspace_id=queue.workspace_id,
        name=queue.name,
        page=reverse("annotation:queue", args=[queue.pk]),
        id=str(queue.pk),
        kind=queue.kind,
    )
