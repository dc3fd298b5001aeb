"""What the quality of a queue is measured from."""

from apps.annotation.desk.known_answers import is_right
from apps.annotation.kinds import kind_of
from apps.annotation.kinds.measures import AT_ONCE, Gathered, Work
from apps.annotation.models import Annotator, Item, Judgement, Queue
from apps.annotation.quality.reading_time import least_seconds


def gather(queue: Queue) -> Gathered:
    """All standing judgments of `queue`, oldest first."""
    kind = kind_of(queue)
    gathered = kind.gather(queue)
    golds = kind.standing.filter(queue=queue, item__purpose=Item.Purpose.GOLD).order_by("pk")
    rows = golds.select_related("item", "annotator", "queue").iterator(chunk_size=AT_ONCE)
    gathered.golds = [_gold(judgement) for judgement in rows]
    least = least_seconds(queue)
    for each in (gathered.work, gathered.golds):
        each[:] = [work._replace(least_seconds=least.get(work.item, 0.0)) for work in each]
    machines = Annotator.objects.filter(desks__queue=queue).exclude(kind=Annotator.Kind.PERSON)
    gathered.machines = frozenset(machines.values_list("pk", flat=True))
    return gathered


def _gold(judgement: Judgement) -> Work:
    seconds = judgement.seconds if judgement.annotator.kind == Annotator.Kind.PERSON else None
    chose_left = kind_of(judgement).chose_left(judgement)
    right = is_right(judgement.item, judgement)
    return Work(judgement.annotator_id, judgement.item_id, judgement.created_at, seconds, chose_left, right)
