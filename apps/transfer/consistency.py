"""What must hold between the rows of an import, since work on all workspaces together relies on it."""

from __future__ import annotations

from typing import Final

from django.db import connection

from apps.accounts.models import Workspace
from apps.annotation.models import Item
from apps.arena.models import Experiment
from apps.transfer.refusals import BadArchive
from apps.transfer.tables import TABLES

MOST_UNDER_WAY: Final = 100
"""Experiments that are still being judged."""
MOST_PAIRS: Final = 100_000
"""Of these, together: their figures are computed anew after each judgment."""

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
    """Let each open assignment hold a place, since it will be freed."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT_PLACES, [workspace.pk])


def refuse_long_work(workspace: Workspace) -> None:
    """Refuse what periodic work, of which other workspaces' is a part, would take too long with. Raises BadArchive."""
    under_way = Experiment.objects.filter(workspace=workspace, state=Experiment.State.LABELLING)
    name = next(table.name for table in TABLES if table.model is Experiment)
    if (count := under_way.count()) > MOST_UNDER_WAY:
        raise BadArchive(name, f"{count:,} experiments are being judged.", f"at most {MOST_UNDER_WAY}.")
    pairs = Item.objects.filter(queue__experiment__in=under_way).count()
    if pairs > MOST_PAIRS:
        raise BadArchive(name, f"Those being judged have {pairs:,} pairs.", f"at most {MOST_PAIRS:,}.")
