"""Keeps quality reports up to date: large queues are measured in the background, and again after more judgments."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db.models import F, Sum
from django.utils.timezone import now

from apps.annotation.desk.known_answers import is_right
from apps.annotation.kinds import kind_of
from apps.annotation.kinds.measures import AT_ONCE, Gathered, Work
from apps.annotation.models import Annotator, Desk, Item, Judgment, QualityReport, Queue
from apps.annotation.quality.measures import measure
from apps.annotation.quality.reading_time import least_seconds
from apps.annotation.queue_work import lock_of, lock_of_person
from apps.common.advisory_locks import lock_if_free
from apps.common.broker import enqueue


def gather(queue: Queue) -> Gathered:
    """All valid judgments of `queue`, oldest first."""
    kind = kind_of(queue)
    gathered = kind.gather(queue)
    golds = kind.valid_judgments.filter(queue=queue, item__purpose=Item.Purpose.GOLD).order_by("pk")
    rows = golds.select_related("item", "annotator", "queue").iterator(chunk_size=AT_ONCE)
    gathered.golds = [_gold(judgment) for judgment in rows]
    least = least_seconds(queue)
    for judgments in (gathered.work, gathered.golds):
        judgments[:] = [work._replace(least_seconds=least.get(work.item, 0.0)) for work in judgments]
    machines = Annotator.objects.filter(desks__queue=queue).filter(kind__in=Annotator.MACHINES)
    gathered.machines = frozenset(machines.values_list("pk", flat=True))
    return gathered


def _gold(judgment: Judgment) -> Work:
    seconds = judgment.seconds if judgment.annotator.kind == Annotator.Kind.PERSON else None
    chose_left = kind_of(judgment).chose_left(judgment)
    right = is_right(judgment.item, judgment)
    return Work(judgment.annotator_id, judgment.item_id, judgment.created_at, seconds, chose_left, right)


MEASURED_AT_ONCE = 200
"""Up to this many judgments are measured during the page's request, which takes about a tenth of a second."""
REST = 20
"""A report is kept for this multiple of the time it took, so that a busy queue doesn't keep a worker measuring."""
REST_AT_LEAST = timedelta(seconds=15)
ASKED_SECONDS = 60
METHOD = 8
"""Incremented when `measures` computes something else from the same judgments, which invalidates stored reports."""


@dataclass(frozen=True)
class Report:
    """The content of the quality pages at a point in time."""

    figures: dict[str, Any]
    """The result of `measures.measure`; empty if nothing was measured yet."""
    measured_at: datetime | None
    is_current: bool
    """Whether no judgment was added or withdrawn since."""


def report_of(queue: Queue) -> Report:
    """The latest report on a queue. Large queues are measured by a worker, which is called if the report is out of date."""
    if _answers(queue) <= MEASURED_AT_ONCE:
        return Report(measure(gather(queue)), now(), is_current=True)
    stored = QualityReport.objects.filter(queue=queue).first()
    if stored is None:
        _ask(queue)
        return Report({}, None, is_current=False)
    is_current = stored.basis == basis_of(queue)
    if not is_current and now() - stored.measured_at > max(
        REST_AT_LEAST, timedelta(seconds=REST * stored.took_seconds)
    ):
        _ask(queue)
    return Report(stored.figures, stored.measured_at, is_current)


def measure_quality(queue_id: UUID) -> None:
    """Measure a queue and store the result, unless a worker measures or fills another one of its workspace or its creator: an open page asks again.

    Many judgments of many questions take up to an hour, which mustn't keep all workers from other workspaces.
    """
    queue = Queue.objects.get(pk=queue_id)
    theirs = lock_of_person(queue.created_by_id, queue.workspace_id)
    with lock_if_free(lock_of(queue.workspace_id)) as is_workspaces_turn, lock_if_free(theirs) as is_persons_turn:
        if is_workspaces_turn and is_persons_turn:
            _measure(queue)
            cache.delete(_asked(queue))


def _measure(queue: Queue) -> None:
    basis = basis_of(queue)  # before reading: later judgments then make the report stale, not wrong
    start = perf_counter()
    figures = measure(gather(queue))
    QualityReport.objects.update_or_create(
        queue=queue,
        defaults={
            "basis": basis,
            "figures": figures,
            "measured_at": now(),
            "took_seconds": perf_counter() - start,
        },
    )


def basis_of(queue: Queue) -> str:
    """Changes with every new or withdrawn judgment: the newest judgment, and the number of valid ones. Read from counters and one index."""
    judgments = kind_of(queue).model.objects.filter(queue=queue)
    newest = judgments.order_by("-pk").values_list("pk", flat=True).first()
    return f"{newest} {_answers(queue)} {METHOD}"


def _answers(queue: Queue) -> int:
    """Valid judgments including gold: otherwise a report that stays current would reveal which answers were gold."""
    counted = Desk.objects.filter(queue=queue).aggregate(all=Sum(F("judged") + F("golds"), default=0))
    count: int = counted["all"]
    return count


def _asked(queue: Queue) -> str:
    return f"quality-asked:{queue.pk}"


def _ask(queue: Queue) -> None:
    if cache.add(_asked(queue), True, ASKED_SECONDS):
        enqueue("quality.measure", str(queue.pk))
