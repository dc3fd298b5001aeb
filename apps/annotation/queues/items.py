"""Turns a selection of trajectories into the items of a queue: in batches, each with its progress in one transaction.

After a crash, filling resumes behind the last batch; concurrent fillings of one queue take turns and add nothing twice.
"""

from contextlib import suppress
from datetime import timedelta
from itertools import islice
from uuid import UUID

from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.db.models import QuerySet
from django.utils.timezone import now

from apps.annotation import queue_work
from apps.annotation.imported_judgments import conversion
from apps.annotation.kinds import kind_of
from apps.annotation.kinds.pair_selection import Pairing
from apps.annotation.models import Item, Queue
from apps.annotation.queues.sources import Selection, candidates_by_task
from apps.common.advisory_locks import try_lock
from apps.common.broker import enqueue
from apps.common.cache import recall, remember

TASKS_A_BATCH = 500
ITEMS_A_BATCH = 20_000
"""Batch size for tasks with many items. Closing the queue waits for the batch, so a task may be split: `selection` records its progress."""
ROWS = 2000
"""Items in memory at once, since the pairs of a task grow with the square of its trajectories."""
MAX_TRIES = 3
"""Consecutive attempts at one batch."""
STALLED_AFTER = timedelta(minutes=1)
MAX_OUTAGES = 20
"""Consecutive attempts that the database may break off. There is one every 15 seconds or more, while a database that is down starts none."""
OUTAGES_REMEMBERED_SECONDS = 24 * 3600


class _OthersTurn(Exception):
    """A worker fills another queue of the workspace or of the person, or measures one."""


def fill(queue_id: UUID) -> int:
    """Fill a queue to the end and open it; returns how many items it has. Does nothing to a queue that isn't being filled.

    If a worker fills another queue of its workspace or its creator, or measures one, it's continued afterward, so that many leave workers to others.
    """
    tries = 0
    while True:
        try:
            if not _fill_batch(queue_id):
                break
            tries = 0
        except _OthersTurn:
            break
        except IntegrityError:  # a trajectory of this batch was deleted meanwhile; the next read leaves it out
            tries += 1
            if tries == MAX_TRIES:
                raise
    queue = Queue.objects.get(pk=queue_id)
    if queue.state != Queue.State.FILLING:
        filling = Queue.objects.filter(state=Queue.State.FILLING)
        _queue_next(filling.filter(workspace=queue.workspace_id))
        if queue.created_by_id:
            _queue_next(filling.filter(created_by=queue.created_by_id).exclude(workspace=queue.workspace_id))
    return queue.item_count


def _queue_next(waiting: QuerySet[Queue]) -> None:
    if following := waiting.order_by("filling_at").values_list("pk", flat=True).first():
        enqueue("queues.fill", str(following))


@transaction.atomic
def _fill_batch(queue_id: UUID) -> bool:
    """Add the items of the next tasks; False at the end. Raises _OthersTurn."""
    workspace_id, person = Queue.objects.values_list("workspace", "created_by").get(pk=queue_id)
    if not try_lock(queue_work.lock_of(workspace_id)) or not try_lock(queue_work.lock_of_person(person, workspace_id)):
        raise _OthersTurn
    queue = Queue.objects.select_for_update(of=("self",)).select_related("workspace").get(pk=queue_id)
    if queue.state != Queue.State.FILLING:
        return False
    has_more = conversion.fill_batch(queue) if "adopted" in queue.selection else _draw_batch(queue)
    queue.filling_at = now()
    queue.save(update_fields=["state", "error", "item_count", "selection", "filled_to", "filling_at"])
    return has_more


def _draw_batch(queue: Queue) -> bool:
    kind, pairing = kind_of(queue), Pairing.from_json(queue.selection["pairing"])
    selection = Selection.from_json(queue.selection["selection"])
    before, last = queue.item_count, None
    done = queue.selection.pop("done", 0)
    for last, candidates in candidates_by_task(
        queue.workspace, selection, pairing, after=queue.filled_to, tasks=TASKS_A_BATCH
    ):
        drawn = islice(kind.draw(pairing, last, candidates), done, None)
        while items := list(islice(drawn, ROWS)):
            _add(queue, items)
            done += len(items)
            if queue.item_count - before >= ITEMS_A_BATCH:
                queue.selection["done"] = done
                return True
        queue.filled_to, done = last, 0
    if last is None:
        queue.state = Queue.State.OPEN if queue.item_count else Queue.State.FAILED
        queue.error = (
            "" if queue.item_count else "None of the selected trajectories exists anymore, so there's nothing to judge."
        )
    return last is not None


def _add(queue: Queue, items: list[Item]) -> None:
    """Items of a shuffled queue already have positions."""
    for index, item in enumerate(items):
        item.queue, item.kind, item.overlap = queue, queue.kind, queue.overlap
        if queue.order != Queue.Order.RANDOM:
            item.position = queue.item_count + index
    Item.objects.bulk_create(items, batch_size=ROWS)
    queue.item_count += len(items)


def record_failure(queue_id: UUID, error: str) -> None:
    """Show on the queue's page why it couldn't be filled."""
    Queue.objects.filter(pk=queue_id, state=Queue.State.FILLING).update(state=Queue.State.FAILED, error=error)


def record_outage(queue_id: UUID, error: Exception) -> None:
    """Count an attempt that the database broke off. Too many without progress between them count as a failure, such as of a query that is always too slow."""
    with suppress(OperationalError, InterfaceError):  # it's down
        progress = Queue.objects.filter(pk=queue_id).values_list("filled_to", "item_count").first()
        key = f"filling-outages:{queue_id}:{progress}".replace(" ", "")
        count = (recall(key) or 0) + 1
        remember(key, count, seconds=OUTAGES_REMEMBERED_SECONDS)
        if count >= MAX_OUTAGES:
            record_failure(queue_id, f"The database broke off {count} attempts in a row, the last with: {error}")


def fill_stalled() -> int:
    """Requeue fillings that stalled because a worker died; returns how many.

    Only the oldest of each workspace, which has one filled at a time: thousands may wait behind it, and a message for each would keep the workers busy.
    """
    stalled = Queue.objects.filter(state=Queue.State.FILLING, filling_at__lt=now() - STALLED_AFTER)
    oldest = stalled.order_by("workspace", "filling_at", "pk").distinct("workspace")
    ids = list(oldest.values_list("pk", flat=True))
    for queue_id in ids:
        enqueue("queues.fill", str(queue_id))
    return len(ids)
