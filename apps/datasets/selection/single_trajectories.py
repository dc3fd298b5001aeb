"""The judgments of single trajectories that a recipe selects, trajectory by trajectory, in an order that depends only on the data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from apps.accounts.models import Workspace
from apps.annotation.kinds import OF_TRAJECTORIES
from apps.annotation.models import Inspection
from apps.datasets.models import Split
from apps.datasets.recipe import Recipe
from apps.datasets.rows import ROW_TYPES
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.pairs import annotators_of, items_left_out
from apps.datasets.selection.splits import SplitTask
from apps.datasets.selection.trajectory_votes import (
    TrajectoryDecision,
    TrajectoryVerdict,
    TrajectoryVote,
    counting_votes,
)

JUDGMENTS = """
SELECT t.id, t.environment, t.key, t.held_out, ts.split, x.id, x.step_count, x.policy_id, i.id, r.upheld, j.*
FROM (
    SELECT p.id, p.item_id, p.annotator_id, 'steps' AS kind, p.ending, p.first_error,
           NULL::smallint AS thumb, NULL::jsonb AS answers, NULL::jsonb AS asks,
           (SELECT array_agg(ARRAY[l.index, l.value] ORDER BY l.index)
            FROM annotation_steplabel l WHERE l.inspection_id = p.id AND NOT l.is_filled) AS labels,
           (SELECT array_agg(c.index ORDER BY c.index)
            FROM annotation_correction c WHERE c.inspection_id = p.id) AS corrected,
           (SELECT array_agg(c.message::text ORDER BY c.index)
            FROM annotation_correction c WHERE c.inspection_id = p.id) AS messages,
           (SELECT array_agg(c.policy_id ORDER BY c.index)
            FROM annotation_correction c WHERE c.inspection_id = p.id) AS sampled
    FROM annotation_inspection p WHERE {chosen}
    UNION ALL
    SELECT p.id, p.item_id, p.annotator_id, 'rating', NULL, NULL, p.thumb, p.answers, q.asks, NULL, NULL, NULL, NULL
    FROM annotation_rating p JOIN annotation_queue q ON q.id = p.queue_id WHERE {chosen}
) AS j
JOIN annotation_item i ON i.id = j.item_id
JOIN trajectories_task t ON t.id = i.task_id
JOIN trajectories_trajectory x ON x.id = i.a_id
LEFT JOIN datasets_tasksplit ts ON ts.task_id = t.id
LEFT JOIN annotation_adjudication r ON r.item_id = i.id
  AND (%(until)s::timestamptz IS NULL AND r.retracted_at IS NULL
       OR r.created_at <= %(until)s AND (r.retracted_at IS NULL OR r.retracted_at > %(until)s))
WHERE i.purpose = 'work' AND i.id <> ALL(%(left_out)s)
ORDER BY t.environment COLLATE "C", t.key COLLATE "C", x.id, j.id
"""
CHOSEN = """
p.workspace_id = %(workspace)s AND p.queue_id = ANY(%(queues)s) AND p.annotator_id = ANY(%(annotators)s)
AND (%(until)s::timestamptz IS NULL
     OR p.created_at <= %(until)s AND (p.retracted_at IS NULL OR p.retracted_at > %(until)s))
AND (%(until)s::timestamptz IS NOT NULL OR p.retracted_at IS NULL)
"""


class JudgedTrajectory(NamedTuple):
    """A trajectory, its counted votes, and the decision from them."""

    task: SplitTask
    trajectory: UUID
    steps: int
    policy: UUID | None
    items: tuple[int, ...]
    counted: list[TrajectoryVote]
    decision: TrajectoryDecision


def judged_trajectories(recipe: Recipe, workspace: Workspace) -> Iterator[JudgedTrajectory]:
    """Every trajectory with a judgment that the recipe includes, through a server-side cursor."""
    with connection.chunked_cursor() as cursor:
        cursor.cursor.itersize = 1000
        cursor.execute(
            JUDGMENTS.format(chosen=CHOSEN),
            {
                "workspace": workspace.pk,
                "queues": [UUID(queue) for queue in recipe.queues],
                "annotators": list(annotators_of(recipe, workspace)),
                "left_out": list(items_left_out(recipe)),
                "until": recipe.until,
            },
        )
        for _, rows in groupby(cursor, key=lambda row: row[5]):
            yield _judged(list(rows), recipe)


def _judged(rows: list[tuple[Any, ...]], recipe: Recipe) -> JudgedTrajectory:
    task = SplitTask(*rows[0][:5])
    trajectory, steps, policy = rows[0][5:8]
    reviewed = recipe.adjudicated == "win"
    votes = counting_votes([(_vote(row[10:]), row[9] if reviewed else None) for row in rows])
    decision = decide_trajectory(votes, recipe, steps=steps)
    unfit = Drop.NO_STEPS if not steps else Drop.HELD_OUT if task.held_out and task.split == Split.TRAIN else None
    if decision.verdicts and unfit:
        decision = TrajectoryDecision([], [*decision.dropped, *([unfit] * len(decision.verdicts))])
    return JudgedTrajectory(task, trajectory, steps, policy, tuple(sorted({row[8] for row in rows})), votes, decision)


def _vote(row: tuple[Any, ...]) -> TrajectoryVote:
    (
        judgment,
        _,
        annotator,
        kind,
        ending,
        first_error,
        thumb,
        answers,
        asks,
        labels,
        corrected,
        messages,
        sampled,
    ) = row
    values = {"ending": ending, "thumb": thumb, "answers": _decoded(answers)}
    return TrajectoryVote(
        judgment,
        annotator,
        kind,
        OF_TRAJECTORIES[kind].opinion(values, _decoded(asks)),
        -1 if ending == Inspection.Ending.SOLVED else first_error,
        dict(labels or ()),
        tuple(
            (index, message.encode("utf-8", "surrogatepass"), policy)
            for index, message, policy in zip(corrected or (), messages or (), sampled or (), strict=True)
        ),
    )


def _decoded(value: Any) -> dict[str, Any]:
    """Django leaves jsonb as text in raw queries."""
    decoded: dict[str, Any] = json.loads(value) if isinstance(value, str) else value or {}
    return decoded


def decide_trajectory(votes: Sequence[TrajectoryVote], recipe: Recipe, *, steps: int) -> TrajectoryDecision:
    """Apply the recipe to the counted votes on one trajectory with this number of steps."""
    if not votes:
        return TrajectoryDecision([], [Drop.OVERRULED])
    rule = ROW_TYPES[recipe.row_type].trajectories
    assert rule is not None, f"no {recipe.row_type} row is made of a single trajectory"
    of_each = recipe.judgments == "each"
    groups = [[vote] for vote in votes] if of_each else [list(votes)]
    margin = 1 if of_each else recipe.minimum_margin
    verdicts: list[TrajectoryVerdict] = []
    dropped: list[Drop] = []
    for group in groups:
        decision = rule.decide(group, margin, steps)
        verdicts += decision.verdicts
        dropped += decision.dropped
    if of_each and verdicts and rule.divides_weight:
        verdicts = [verdict._replace(weight=1 / len(verdicts)) for verdict in verdicts]
    return TrajectoryDecision(verdicts, dropped)
