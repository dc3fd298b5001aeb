"""The annotators of trajectories, for the filters and counts of the list of trajectories."""

from collections.abc import Sequence
from uuid import UUID

from django.db import connection
from django.db.models import Q

from apps.accounts.models import Membership
from apps.annotation.models import Annotator, Assignment, Item
from apps.trajectories.annotators import Judged
from apps.trajectories.filters import FEW

MAX_ANNOTATORS = 200


class TrajectoryAnnotators:
    """Reads assignments closed by a judgment. Who judged doesn't reveal the judgment."""

    def judged_by(self, annotator: UUID) -> Q:
        items = Assignment.objects.filter(annotator=annotator, state=Assignment.State.JUDGED).values("item")
        judged = Item.objects.filter(pk__in=items)
        few = list(judged.values_list("a", "b")[: FEW + 1])
        if len(few) <= FEW:
            return Q(pk__in={trajectory for pair in few for trajectory in pair if trajectory})
        return Q(pk__in=judged.values("a")) | Q(pk__in=judged.exclude(b=None).values("b"))

    def name(self, member: Membership, annotator: UUID) -> str:
        names = Annotator.objects.visible_to(member).filter(pk=annotator).values_list("name", flat=True)
        return names.first() or ""

    def counts(self, member: Membership, trajectories: Sequence[UUID]) -> list[Judged]:
        with connection.cursor() as cursor:
            cursor.execute(
                _COUNT, {"runs": list(trajectories), "workspace": member.workspace_id, "most": MAX_ANNOTATORS}
            )
            return [Judged(*row) for row in cursor.fetchall()]


# Passes thousands of ids as one array: as single parameters, they cost Django more time than the whole statement costs Postgres.
_COUNT = """
WITH judged AS (
    SELECT id, a_id AS run FROM annotation_item WHERE a_id = ANY(%(runs)s)
    UNION ALL SELECT id, b_id FROM annotation_item WHERE b_id = ANY(%(runs)s)
)
SELECT w.id, w.name, count(DISTINCT judged.run) AS runs
FROM judged
JOIN annotation_assignment s ON s.item_id = judged.id AND s.state = 'judged' AND s.workspace_id = %(workspace)s
JOIN annotation_annotator w ON w.id = s.annotator_id
GROUP BY w.id ORDER BY runs DESC, w.name LIMIT %(most)s
"""

ANNOTATORS = TrajectoryAnnotators()
