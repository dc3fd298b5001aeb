"""The judgments that a recipe selects, pair by pair, in an order that depends only on the data.

If the recipe uses a label-aggregation model, each pair comes with the model's estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from django.db import connection

from apps.accounts.models import Workspace
from apps.annotation.models import Annotator
from apps.annotation.quality.label_aggregation import Floats, Votes, dawid_skene, glad, majority
from apps.annotation.queries import flagged_items
from apps.datasets.models import Split
from apps.datasets.recipe import Recipe
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.splits import SplitTask
from apps.datasets.selection.votes import Belief, Decision, Ruling, Vote, counted, decide, decide_by, latest

# A pair is unordered here: trajectory `first` has the smaller id, and strengths are signed to favor it. Two queues may hold the
# same two trajectories in opposite order.
JUDGMENTS = """
SELECT t.id, t.environment, t.key, t.held_out, ts.split,
       x.id::text, y.id::text, x.step_count, y.step_count, x.policy_id, y.policy_id,
       x.success IS FALSE AND y.success IS FALSE,
       i.id, p.id::text, p.annotator_id,
       CASE WHEN i.a_id = x.id THEN p.strength ELSE -p.strength END,
       p.both_bad, (i.a_id = x.id) = p.a_was_left,
       r.id, CASE WHEN i.a_id = x.id THEN r.strength ELSE -r.strength END, r.both_bad
FROM annotation_preference p
JOIN annotation_item i ON i.id = p.item_id
JOIN trajectories_task t ON t.id = i.task_id
JOIN trajectories_trajectory x ON x.id = LEAST(i.a_id, i.b_id)
JOIN trajectories_trajectory y ON y.id = GREATEST(i.a_id, i.b_id)
LEFT JOIN datasets_tasksplit ts ON ts.task_id = t.id
LEFT JOIN annotation_adjudication r ON r.item_id = i.id
  AND (%(until)s::timestamptz IS NULL AND r.retracted_at IS NULL
       OR r.created_at <= %(until)s AND (r.retracted_at IS NULL OR r.retracted_at > %(until)s))
WHERE i.purpose = 'work' AND i.id <> ALL(%(left_out)s) AND p.workspace_id = %(workspace)s AND p.queue_id = ANY(%(queues)s) AND p.annotator_id = ANY(%(annotators)s)
  AND (%(until)s::timestamptz IS NULL
       OR p.created_at <= %(until)s AND (p.retracted_at IS NULL OR p.retracted_at > %(until)s))
  AND (%(until)s::timestamptz IS NOT NULL OR p.retracted_at IS NULL)
ORDER BY t.environment COLLATE "C", t.key COLLATE "C", x.id, y.id, p.id
"""


class Pair(NamedTuple):
    """Two trajectories of one task with all the votes on them."""

    task: SplitTask
    first: str
    """Ids of trajectories and judgments are text here: they're only compared and passed on, and text is faster than UUIDs."""
    second: str
    first_steps: int
    second_steps: int
    first_policy: UUID | None
    second_policy: UUID | None
    both_failed: bool
    """As far as outcomes are known."""
    items: tuple[int, ...]
    votes: tuple[Vote, ...]
    ruling: Ruling | None
    """The newest decision of a reviewer, if any."""


class JudgedPair(NamedTuple):
    """A pair and the decision from its counted votes."""

    pair: Pair
    counted: list[Vote]
    decision: Decision


def annotators_of(recipe: Recipe, workspace: Workspace) -> dict[UUID, Annotator]:
    """The annotators whose judgments the recipe includes."""
    chosen = Annotator.objects.filter(workspace=workspace, kind__in=recipe.annotator_kinds)
    return {annotator.pk: annotator for annotator in chosen.exclude(pk__in=recipe.without_annotators)}


def items_left_out(recipe: Recipe) -> tuple[int, ...]:
    """The items that it excludes: those it lists or, before its version is created, those flagged now."""
    if recipe.without_items is not None:
        return recipe.without_items
    return tuple(flagged_items(recipe.queues)) if recipe.flagged == "leave_out" else ()


def judged_pairs(recipe: Recipe, workspace: Workspace) -> Iterator[JudgedPair]:
    """Every pair with a judgment that the recipe includes, through a server-side cursor, so memory doesn't grow with their number."""
    believed = _beliefs(recipe, workspace)
    for pair in _pairs(recipe, workspace):
        yield _judged(pair, recipe, believed.get((pair.first, pair.second)))


def can_make_rows(recipe: Recipe, workspace: Workspace) -> bool:
    """Whether any pair makes a row or, with a label-aggregation model, does for some estimate: fitting the model takes seconds, too long for a request."""
    estimates = [None] if recipe.aggregation == "votes" else [Belief(1.0, 0.0, 0.0), Belief(0.0, 0.0, 1.0)]
    return any(
        _judged(pair, recipe, belief).decision.verdicts for pair in _pairs(recipe, workspace) for belief in estimates
    )


def _judged(pair: Pair, recipe: Recipe, belief: Belief | None) -> JudgedPair:
    votes = counted(pair.votes, recipe)
    if pair.ruling and recipe.adjudicated == "win":
        decision = decide_by(pair.ruling, votes or latest(pair.votes), recipe)
    else:
        decision = decide(votes, recipe, belief)
    if decision.verdicts and (unfit := _unfit(pair, recipe)):
        decision = Decision([], [*decision.dropped, *([unfit] * len(decision.verdicts))])
    return JudgedPair(pair, votes, decision)


def _beliefs(recipe: Recipe, workspace: Workspace) -> Beliefs:
    """The aggregation model's estimate for every pair, fitted in a separate pass over all judgments. Empty for plain votes."""
    if recipe.aggregation == "votes":
        return {}
    pairs = ((pair.first, pair.second, counted(pair.votes, recipe)) for pair in _pairs(recipe, workspace))
    return beliefs(pairs, recipe.aggregation)


def _unfit(pair: Pair, recipe: Recipe) -> Drop | None:
    """Why this pair can't make a row, regardless of its judgments."""
    if not (pair.first_steps and pair.second_steps):
        return Drop.NO_STEPS
    if pair.task.held_out and pair.task.split == Split.TRAIN:
        return Drop.HELD_OUT
    if pair.both_failed and recipe.failed_pairs == "leave_out":
        return Drop.BOTH_FAILED
    return None


def _pairs(recipe: Recipe, workspace: Workspace) -> Iterator[Pair]:
    with connection.chunked_cursor() as cursor:
        cursor.cursor.itersize = 2000
        cursor.execute(
            JUDGMENTS,
            {
                "workspace": workspace.pk,
                "queues": [UUID(queue) for queue in recipe.queues],
                "annotators": list(annotators_of(recipe, workspace)),
                "left_out": list(items_left_out(recipe)),
                "until": recipe.until,
            },
        )
        for _, rows in groupby(cursor, key=lambda row: row[5:7]):
            yield _pair(list(rows))


def _pair(rows: list[tuple[Any, ...]]) -> Pair:
    first, second, first_steps, second_steps, first_policy, second_policy, both_failed = rows[0][5:12]
    return Pair(
        task=SplitTask(*rows[0][:5]),
        first=first,
        second=second,
        first_steps=first_steps,
        second_steps=second_steps,
        first_policy=first_policy,
        second_policy=second_policy,
        both_failed=both_failed,
        items=tuple(sorted({row[12] for row in rows})) if len(rows) > 1 else (rows[0][12],),
        votes=tuple(Vote(*row[13:18]) for row in rows),
        ruling=max((Ruling(*row[18:]) for row in rows if row[18]), default=None),
    )


Beliefs = dict[tuple[str, str], Belief]
"""Keyed by (first trajectory, second trajectory)."""

SECOND, NEITHER, FIRST = range(3)


def beliefs(pairs: Iterable[tuple[str, str, Sequence[Vote]]], aggregation: str) -> Beliefs:
    """An estimate for each pair (first trajectory, second trajectory, counted votes) that has a vote."""
    names: list[tuple[str, str]] = []
    rows: list[tuple[int, UUID, int]] = []
    for first, second, votes in pairs:
        if votes:
            rows += [(len(names), vote.annotator, _label(vote)) for vote in votes]
            names.append((first, second))
    if not names:
        return {}
    judged = Votes.of(rows, items=len(names), labels=3)
    posterior = dawid_skene(judged).posterior if aggregation == "dawid_skene" else _by_skill(judged)
    return {name: Belief(*map(float, row[::-1])) for name, row in zip(names, posterior, strict=True)}


def _label(vote: Vote) -> int:
    return NEITHER + (vote.strength > 0) - (vote.strength < 0)


def _by_skill(votes: Votes) -> Floats:
    """GLAD is binary: the share of ties gives the probability of neither; the other votes, that of each trajectory otherwise."""
    neither = majority(votes)[:, NEITHER]
    decided = votes.label != NEITHER
    annotator_ids, annotator = np.unique(votes.annotator[decided], return_inverse=True)
    two_way = Votes(
        votes.item[decided],
        annotator,
        (votes.label[decided] == FIRST).astype(np.int64),
        votes.items,
        len(annotator_ids),
        2,
    )
    first = glad(two_way).posterior
    return np.stack([(1 - neither) * (1 - first), neither, (1 - neither) * first], axis=1)
