"""Who judged trajectories: what the list of trajectories filters and counts by."""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Count, Q

from apps.accounts.models import Membership
from apps.annotation.models import Annotator, Assignment, Item
from apps.trajectories.annotators import Judged
from apps.trajectories.filters import FEW

MOST = 200


class TrajectoryAnnotators:
    """Reads assignments that ended with a judgment. Who judged says nothing of what they said."""

    def judged_by(self, annotator: UUID) -> Q:
        items = Assignment.objects.filter(annotator=annotator, state=Assignment.State.JUDGED).values("item")
        judged = Item.objects.filter(pk__in=items)
        few = list(judged.values_list("a", "b")[: FEW + 1])
        if len(few) <= FEW:
            return Q(pk__in={run for pair in few for run in pair if run})
        return Q(pk__in=judged.values("a")) | Q(pk__in=judged.exclude(b=None).values("b"))

    def name(self, member: Membership, annotator: UUID) -> str:
        found = Annotator.objects.visible_to(member).filter(pk=annotator).values_list("name", flat=True)
        return found.first() or ""

    def counts(self, member: Membership, trajectories: Sequence[UUID]) -> list[Judged]:
        judged = Assignment.objects.filter(state=Assignment.State.JUDGED, workspace=member.workspace_id)
        totals: dict[UUID, Judged] = {}
        for side in ("item__a", "item__b"):
            rows = judged.filter(**{f"{side}__in": trajectories}).values_list("annotator", "annotator__name")
            for who, name, count in rows.annotate(count=Count(side, distinct=True)).order_by():
                totals[who] = Judged(who, name, count + (totals[who].runs if who in totals else 0))
        return sorted(totals.values(), key=lambda each: (-each.runs, each.name))[:MOST]


ANNOTATORS = TrajectoryAnnotators()
