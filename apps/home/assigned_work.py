"""An annotator's pending work and progress. Read from counters, so nothing is counted here."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, Sum
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Membership
from apps.annotation.comments.queries import unread_mentions
from apps.annotation.kinds import KINDS
from apps.annotation.kinds.blindness import assigned_elsewhere, left_for
from apps.annotation.models import Desk, Item, Mention, Queue
from apps.annotation.review.adjudication import undecided
from apps.common.ids import first_id_at
from apps.common.quantities import duration

SHOWN = 20
SEARCHED = 500
"""How many of the newest open queues are searched for work."""


@dataclass(frozen=True)
class Waiting:
    """An open queue, as one annotator sees it."""

    queue: Queue
    judged_by_me: int
    golds_by_me: int
    judged_by_all: int
    elsewhere: int
    """Items assigned to other people only."""
    seconds_each: float | None
    """This person's mean time per judgment here; None before their first."""

    @property
    def url(self) -> str:
        """The URL of its desk."""
        return reverse("annotation:desk", args=[self.queue.pk])

    @property
    def answered_by_me(self) -> int:
        """Includes gold items, which no number shown here distinguishes from others."""
        return self.judged_by_me + self.golds_by_me

    @property
    def all_for_me(self) -> int:
        """What I've judged, plus what is left for me."""
        return self.answered_by_me + self.left_for_me

    @property
    def left_for_me(self) -> int:
        """Upper bound of the items that I can still judge."""
        return left_for(self.queue, self.judged_by_all, self.judged_by_me, self.golds_by_me, self.elsewhere)

    @property
    def time_left(self) -> str:
        """How long that takes at this person's pace; empty while the pace is unknown."""
        return duration(self.left_for_me * self.seconds_each) if self.seconds_each and self.left_for_me else ""


@dataclass(frozen=True)
class Pace:
    """The work of one person in a workspace."""

    judged: int
    """Includes gold items, as do the other figures."""
    lately: int
    """Judgments in the last 24 hours."""
    seconds_each: float | None


@dataclass(frozen=True)
class Review:
    """Disputed items without a decision."""

    queue: Queue
    """The queue with the most of them."""
    items: int
    others: int
    """Disputed items in other queues."""


def review_for(member: Membership) -> Review | None:
    """Pending work of a reviewer; None if there is none."""
    disputed = undecided().filter(queue__in=Queue.objects.visible_to(member))
    counts = dict(disputed.order_by().values_list("queue").annotate(Count("pk")))
    if not counts:
        return None
    busiest = max(counts, key=lambda queue: counts[queue])
    return Review(Queue.objects.get(pk=busiest), counts[busiest], sum(counts.values()) - counts[busiest])


def mentions_of(member: Membership) -> list[Mention]:
    """Unread mentions, newest first."""
    return list(unread_mentions(member).order_by("-pk")[:SHOWN])


def pace_of(member: Membership) -> Pace:
    """Read from the person's desks, and their judgments of one day."""
    by_member = {"annotator__workspace": member.workspace_id, "annotator__user": member.user_id}
    done = Desk.objects.filter(**by_member).aggregate(judged=Sum("judged"), golds=Sum("golds"), seconds=Sum("seconds"))
    lately = sum(_recent_count(kind.model.objects, by_member) for kind in KINDS.values())
    judged = (done["judged"] or 0) + (done["golds"] or 0)
    return Pace(judged, lately, done["seconds"] / judged if judged else None)


def _recent_count(judgments: Any, by_member: dict[str, Any]) -> int:
    """Leaves out judgments of onboarding items, which aren't counted anywhere."""
    valid = judgments.valid().filter(**by_member, pk__gte=first_id_at(now() - timedelta(hours=24)))
    count: int = valid.exclude(item__purpose=Item.Purpose.ONBOARDING).count()
    return count


def waiting_for(member: Membership) -> list[Waiting]:
    """Open queues: those that this person has begun, then those they haven't, then those with nothing left for them; each newest first."""
    queues = list(Queue.objects.visible_to(member).open().order_by("-pk")[:SEARCHED])
    desks = Desk.objects.filter(queue__in=queues)
    totals = dict(desks.order_by().values_list("queue").annotate(Sum("judged")))
    desks_by_queue = {desk.queue_id: desk for desk in desks.filter(annotator__user=member.user_id)}
    elsewhere = assigned_elsewhere([queue.pk for queue in queues], member.user_id)
    rows = [
        _row(queue, desks_by_queue.get(queue.pk), totals.get(queue.pk, 0), elsewhere.get(queue.pk, 0))
        for queue in queues
    ]
    return sorted(rows, key=lambda row: (row.left_for_me == 0, row.answered_by_me == 0))[:SHOWN]


def _row(queue: Queue, desk: Desk | None, judged_by_all: int, elsewhere: int) -> Waiting:
    return Waiting(
        queue=queue,
        judged_by_me=desk.judged if desk else 0,
        golds_by_me=desk.golds if desk else 0,
        judged_by_all=judged_by_all,
        elsewhere=elsewhere,
        seconds_each=desk.seconds_each if desk and desk.answered else None,
    )
