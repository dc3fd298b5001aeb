"""Checks and repairs what periodic work, which serves all workspaces, expects of imported rows."""

from __future__ import annotations

from typing import Any, Final

from django.db import connection
from django.db.models import Q, QuerySet

from apps.accounts.models import Workspace
from apps.annotation.models import Assignment, Item, Queue
from apps.arena.models import Experiment
from apps.gateway.models import Feedback
from apps.transfer.refusals import BadArchive

MAX_ACTIVE: Final = 100
"""Maximum number of experiments that are still being judged."""
MAX_PAIRS: Final = 100_000
"""Maximum number of pairs in all of them, since their figures are recomputed after each judgment."""

MAX_ENDING: Final = 1000
MAX_OPEN: Final = 10_000
MAX_FEEDBACK: Final = 2000
"""Maximum number of pending feedback entries. A periodic task converts them one by one; this many take a few minutes."""

COUNT_PLACES: Final = """
    UPDATE annotation_item SET taken = annotation_item.judged + found.open
    FROM (
        SELECT held.item_id, count(*) AS open
        FROM annotation_assignment held
        WHERE held.workspace_id = %s AND held.state = 'open'
        GROUP BY held.item_id
    ) found
    WHERE annotation_item.id = found.item_id AND annotation_item.taken < annotation_item.judged + found.open
"""


def count_places(workspace: Workspace) -> None:
    """Count a slot for each open assignment, since it will be freed."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT_PLACES, [workspace.pk])


def refuse_long_work(workspace: Workspace) -> None:
    """Refuse amounts of rows for which periodic work, which other workspaces share, would take too long. Raises BadArchive."""
    under_way = Experiment.objects.filter(workspace=workspace, state=Experiment.State.LABELING)
    ending = Queue.objects.open().filter(Q(ends_at__isnull=False) | Q(ends_after__isnull=False), workspace=workspace)
    limits: tuple[tuple[QuerySet[Any], int, str], ...] = (
        (under_way, MAX_ACTIVE, "experiments that are being judged"),
        (
            Item.objects.filter(queue__experiment__in=under_way),
            MAX_PAIRS,
            "pairs of experiments that are being judged",
        ),
        (ending, MAX_ENDING, "open queues with an end"),
        (Assignment.objects.filter(workspace=workspace, state=Assignment.State.OPEN), MAX_OPEN, "open assignments"),
        (
            Feedback.objects.filter(session__workspace=workspace, judged_at=None),
            MAX_FEEDBACK,
            "entries of feedback that aren't judgments yet",
        ),
    )
    for rows, limit, noun in limits:
        if (count := rows.count()) > limit:
            raise BadArchive("The archive", f"It has {count:,} {noun}.", f"at most {limit:,}.")
