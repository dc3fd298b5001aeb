"""Queries on queues for pages and the API. Counters are kept on desks, so nothing here counts large tables."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import F, Q, QuerySet, Sum

from apps.accounts.models import Membership
from apps.annotation.kinds import KINDS, kind_of
from apps.annotation.kinds.blindness import ELSEWHERE, assigned_elsewhere, left_for
from apps.annotation.kinds.pair_selection import Pairing
from apps.annotation.models import Annotator, Assignment, BulkAct, Desk, Guideline, Item, ItemAssignee, Judgment, Queue
from apps.annotation.quality.shares import Share, share
from apps.common.compiled_queries import CompiledQuery
from apps.common.sorting import by_age, by_name

QUEUE_COLUMNS = (by_name("Queue", "name", "pk"), by_age("Created"))
FLAGGED = 20
BULK_ACTS = 5
JUDGMENTS_OF_RUN = 20
LATEST_OF_PERSON = 20
HEAVY_COLUMNS = tuple(f"{side}__{column}" for side in "ab" for column in ("tools", "closing", "info"))
"""Large, rarely needed columns of an item's trajectories."""


@dataclass(frozen=True)
class DeskProgress:
    """One person's and everybody's progress in a queue."""

    mine: int
    """Judgments including gold items, since a count that stays the same would reveal them."""
    left: int
    """See `left_for`."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def desk_progress(queue: Queue, annotator: Annotator) -> DeskProgress:
    values: dict[str, Any] = {"queues": [queue.pk], "annotator": annotator.pk, "user": annotator.user_id}
    with connection.cursor() as cursor:
        cursor.execute(_PROGRESS, values)
        judged, mine, golds, elsewhere = cursor.fetchone()
    return DeskProgress(mine=mine + golds, left=left_for(queue, judged, mine, golds, elsewhere))


_PROGRESS = f"""
SELECT coalesce(sum(judged), 0), coalesce(sum(judged) FILTER (WHERE annotator_id = %(annotator)s), 0),
       coalesce(sum(golds) FILTER (WHERE annotator_id = %(annotator)s), 0),
       coalesce((SELECT items FROM ({ELSEWHERE}) elsewhere (queue, items)), 0)
FROM annotation_desk WHERE queue_id = ANY(%(queues)s)
"""
_LATEST_GUIDELINE = CompiledQuery(
    lambda queue: Guideline.objects.filter(queue=queue).order_by("-version")[:1], queue=UUID
)


def latest_guideline(queue: Queue) -> Guideline | None:
    return _LATEST_GUIDELINE.first(queue=queue.pk)


class QueueRow(NamedTuple):
    """A queue in a list."""

    queue: Queue
    judged: int
    mine: int
    """Includes gold items."""
    golds: int
    """How many of `mine` are gold."""
    elsewhere: int
    """Items assigned to others only."""

    @property
    def left(self) -> int:
        """Number of judgments still missing, by anybody; for reviewers."""
        return max(self.queue.slots - self.judged, 0)

    @property
    def left_for_me(self) -> int:
        return left_for(self.queue, self.judged, self.mine - self.golds, self.golds, self.elsewhere)


def queue_rows(queues: Sequence[Queue], member: Membership) -> list[QueueRow]:
    """The rows of a list of queues, in two queries for all."""
    desks = Desk.objects.filter(queue__in=[queue.pk for queue in queues]).values("queue")
    my_desk = Q(annotator__user=member.user_id)
    sums = desks.annotate(
        all=Sum("judged"),
        mine=Sum(F("judged") + F("golds"), default=0, filter=my_desk),
        my_golds=Sum("golds", default=0, filter=my_desk),
    )
    counts_by_queue = {queue: counts for queue, *counts in sums.values_list("queue", "all", "mine", "my_golds")}
    elsewhere = assigned_elsewhere([queue.pk for queue in queues], member.user_id)
    rows = []
    for queue in queues:
        judged, mine, golds = counts_by_queue.get(queue.pk, (0, 0, 0))
        rows.append(QueueRow(queue, judged, mine, golds, elsewhere.get(queue.pk, 0)))
    return rows


@dataclass(frozen=True)
class Totals:
    """The totals of a queue."""

    judged: int
    slots: int
    skipped: int
    annotators: int
    """Number of people, rules, and models that judged something."""
    seconds_each: float | None
    """Mean time of a person's judgment; the time of rules and models is irrelevant."""
    flagged: list[Assignment]


def totals_of(queue: Queue) -> Totals:
    desks = list(
        Desk.objects.filter(queue=queue).values_list("judged", "skipped", "golds", "seconds", "annotator__kind")
    )
    timed = [
        (judged + golds, seconds)
        for judged, _, golds, seconds, kind in desks
        if kind == Annotator.Kind.PERSON and seconds
    ]
    flagged = (
        Assignment.objects.filter(queue=queue, flagged=True).select_related("annotator", "item__task").order_by("-pk")
    )
    return Totals(
        judged=sum(desk[0] for desk in desks),
        slots=queue.slots,
        skipped=sum(desk[1] for desk in desks),
        annotators=sum(desk[0] > 0 for desk in desks),
        seconds_each=sum(seconds for _, seconds in timed) / sum(judged for judged, _ in timed) if timed else None,
        flagged=list(
            flagged.only("flag_reason", "annotator__name", "annotator__kind", "item__task__key", "item__position")[
                :FLAGGED
            ]
        ),
    )


def flagged_items(queues: Iterable[UUID | str]) -> list[int]:
    """The flagged items of these queues, ordered by id."""
    flagged = Assignment.objects.filter(queue__in=list(queues), flagged=True, item__purpose=Item.Purpose.WORK)
    return sorted(set(flagged.values_list("item", flat=True)))


def people_of(queue: Queue) -> list[Desk]:
    """Who judged here, most active first."""
    return list(Desk.objects.filter(queue=queue).select_related("annotator").order_by("-judged", "pk")[:100])


def source_of(queue: Queue) -> dict[str, Any]:
    """What the queue was made from, as text; parts that don't apply are empty."""
    queue_selection = queue.selection
    pairing = Pairing.from_json(queue_selection["pairing"]) if "pairing" in queue_selection else None
    selection = queue_selection.get("selection") or {}
    description = kind_of(queue).pairing_text(pairing) if pairing else None
    adopted = queue_selection.get("adopted") or {}
    return {
        "pairing": description,
        "picked": len(selection.get("ids", [])),
        "filter": selection.get("filter", ""),
        "adopted": adopted,
        "left_out": list(adopted.get("left_out", {}).items()),
    }


def judgments_of_items(queue: Queue, items: Iterable[Item], member: Membership) -> dict[int, list[Judgment]]:
    """The valid judgments of each of these items of `queue` that `member` may see."""
    judgments: dict[int, list[Judgment]] = defaultdict(list)
    valid = kind_of(queue).valid_judgments.visible_to(member).filter(item__in=[item.pk for item in items])
    for judgment in valid.select_related("annotator").order_by("pk"):
        judgments[judgment.item_id].append(judgment)
    return judgments


def judgments_under_review(queue: Queue, item: Item) -> list[Judgment]:
    """All valid judgments of an item, oldest first, for deciding it; the page hides those that the reviewer may not see yet."""
    return list(kind_of(queue).valid_judgments.filter(item=item).select_related("annotator").order_by("pk"))


def valid_judgments_by_item(queue: Queue, items: Iterable[Item]) -> dict[int, list[UUID]]:
    """The ids of the items' valid judgments, oldest first."""
    judgments: dict[int, list[UUID]] = defaultdict(list)
    valid = kind_of(queue).valid_judgments.filter(item__in=[item.pk for item in items])
    for item, judgment in valid.order_by("pk").values_list("item", "pk"):
        judgments[item].append(judgment)
    return judgments


def judgments_of_trajectory(member: Membership, trajectory_id: UUID) -> list[Judgment]:
    """The newest judgments of this trajectory, individually or in a pair."""
    items = Item.objects.filter(Q(a=trajectory_id) | Q(b=trajectory_id))
    newest: list[Judgment] = []
    for kind in KINDS.values():
        judgments = kind.valid_judgments.visible_to(member).filter(item__in=items)
        related = ("annotator", "item__a__policy", "item__b__policy", "queue")
        light = judgments.select_related(*related).defer(*(f"item__{column}" for column in HEAVY_COLUMNS))
        newest += light.order_by("-pk")[:JUDGMENTS_OF_RUN]
    return sorted(newest, key=lambda judgment: judgment.pk, reverse=True)[:JUDGMENTS_OF_RUN]


def latest_judgments_of(queue: Queue, annotator: Annotator, member: Membership) -> list[Any]:
    """The newest valid judgments of one annotator in one queue that `member` may see."""
    judgments = kind_of(queue).valid_judgments.visible_to(member).filter(queue=queue, annotator=annotator)
    valid = judgments.select_related("item__task")
    return list(
        valid.defer("item__task__initial_state", "item__task__success_check").order_by("-pk")[:LATEST_OF_PERSON]
    )


def bulk_acts_of(queue: Queue) -> list[BulkAct]:
    """The bulk actions on its items, newest first."""
    return list(BulkAct.objects.filter(queue=queue).select_related("by").defer("before").order_by("-pk")[:BULK_ACTS])


def assignees_of(items: Iterable[Item]) -> dict[int, list[str]]:
    """The names of each item's assignees; none if it's for everybody."""
    assignees: dict[int, list[str]] = defaultdict(list)
    rows = ItemAssignee.objects.filter(item__in=[item.pk for item in items]).select_related("user")
    for assignee in rows.order_by("user__name", "pk"):
        assignees[assignee.item_id].append(str(assignee.user))
    return assignees


def items_of(queue: Queue) -> QuerySet[Item]:
    """A queue's items with their task and trajectories, without large columns."""
    rows = Item.objects.filter(queue=queue).select_related("task", "a__policy", "b__policy")
    return rows.defer("task__initial_state", "task__success_check", *HEAVY_COLUMNS)


def golds_of(queue: Queue) -> dict[UUID, Share]:
    """Each annotator's current accuracy on gold items."""
    desks = Desk.objects.filter(queue=queue, golds__gt=0).values_list("annotator", "golds_right", "golds")
    return {annotator_id: share(right, of) for annotator_id, right, of in desks}
