"""Live experiments: the sessions of a traffic split feed a blind queue as they end.

Each task gets one pair, from the first attempt of either side: the one that began first, since the first to end is more often a short one, such as one
that soon failed. Further attempts would change the score of a task that is already judged, and the confidence sequence takes each score once, in the order
in which they became known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from uuid import UUID

from django.contrib.postgres.aggregates import BoolOr
from django.db import IntegrityError, transaction
from django.db.models import Case, F, Q, QuerySet, TextField, When, Window
from django.db.models.functions import MD5, Cast

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.annotation.models import Queue
from apps.annotation.queues.queue_lifecycle import add_pairs
from apps.arena.blind_queues import blind_queue
from apps.arena.models import Experiment, LiveAttempt
from apps.arena.pairs import Attempt, Matching, match
from apps.arena.stopping_rule import StoppingRule
from apps.gateway.models import Path, Session
from apps.gateway.splits.models import Arm, TrafficSplit
from apps.policies import promotions

BATCH = 500
"""Sessions processed per transaction."""
MAX_BATCHES = 10
"""Batches per call, since other experiments wait for the same worker."""
Side = LiveAttempt.Side


class CantFeed(Exception):
    """The split can't feed an experiment. `field` is what to change."""

    field = "split"


@transaction.atomic
def start_live_experiment(
    *,
    workspace: Workspace,
    name: str,
    split: TrafficSplit,
    tasks: int,
    overlap: int,
    rule: StoppingRule,
    seed: int,
    by: User,
) -> Experiment:
    """Compare the two arms of a split in sessions that begin from now on, until `tasks` are judged or the rule ends it. Raises CantFeed."""
    locked = TrafficSplit.objects.select_for_update(no_key=True).get(pk=split.pk)
    arms = list(locked.arms.select_related("policy").order_by("is_canary", "pk"))
    _refuse_unsuitable_split(locked, arms)
    champion = promotions.champion(workspace=workspace, environment=locked.environment)
    a, b = sorted((arm.policy for arm in arms), key=lambda policy: policy != champion)
    plan = {"source": "live", "tasks": tasks, "samples": 1, "overlap": overlap, "seed": seed, "rule": asdict(rule)}
    try:
        with transaction.atomic():
            experiment = Experiment.objects.create(
                workspace=workspace,
                name=name,
                environment=locked.environment,
                policy_a=a,
                policy_b=b,
                split=locked,
                plan=plan,
                state=Experiment.State.LABELING,
                created_by=by,
            )
    except IntegrityError:
        raise CantFeed(f"{locked} feeds an experiment already. End that one first.") from None
    locked.experiment = experiment.pk
    locked.save(update_fields=["experiment"])
    audit.record(workspace=workspace, actor=by, action="started experiment", subject=name, target=experiment, **plan)
    return experiment


def _refuse_unsuitable_split(split: TrafficSplit, arms: list[Arm]) -> None:
    if len(arms) != 2:
        raise CantFeed(
            f"{split} has {len(arms)} arm{'' if len(arms) == 1 else 's'}; an experiment compares two. Change its arms first."
        )
    if split.unit == TrafficSplit.Unit.TASK:
        raise CantFeed(f"{split} draws by task, so no task ever meets both arms. Have it draw by session or by unit.")
    if not split.is_on:
        raise CantFeed(f"{split} is off, so nothing is drawn. Turn it on first.")


def feed(experiment: Experiment) -> int:
    """Process the sessions that have ended since the last call; returns how many. A concurrent call finds nothing left to do."""
    total = 0
    for _ in range(MAX_BATCHES):
        fed = _feed_batch(experiment.pk)
        total += fed
        if fed < BATCH:
            break
    return total


@transaction.atomic
def _feed_batch(experiment_id: UUID) -> int:
    # No join here: after waiting for the lock, this row would be current but the joined rows would be stale.
    experiment = Experiment.objects.select_for_update().get(pk=experiment_id)
    if experiment.state != Experiment.State.LABELING or _is_closed(experiment.queue):
        return 0
    paired = LiveAttempt.objects.filter(experiment=experiment, side=Side.A, is_paired=True).count()
    remaining_tasks = experiment.plan["tasks"] - paired
    if remaining_tasks <= 0:
        return 0
    drawn = dict(_to_feed(experiment_id).order_by("id").values_list("pk", "drawn_id")[:BATCH])
    if not drawn:
        return 0
    tasks = _note_attempts(experiment, drawn)
    Session.objects.filter(pk__in=drawn).update(is_fed=True)
    matching = _matching(experiment, tasks, remaining_tasks)
    _extend(experiment, matching)
    return len(drawn)


def _to_feed(experiment_id: UUID) -> QuerySet[Session]:
    """The sessions that have ended, except those that wait for an earlier one of the same side and task, which is still open.

    Tasks are compared by a digest of their text, since what agents send may not be readable in the database. Those without a key are known by their first
    message only, so nothing waits for them.

    Sorted once instead of compared with each other, or with themselves in a join: there may be thousands of both.
    """
    is_open = Q(state=Session.State.OPEN)
    text = Cast("task", TextField())
    whose_turn = Case(When(task_text__contains='"key":', then=MD5(text)), default=Cast("id", TextField()))
    # An open session waits for itself. Without the open ones, the window would not see them.
    waits = Window(BoolOr(is_open), partition_by=[F("drawn"), whose_turn], order_by=F("id").asc())
    # Two conditions, each with an index of its own: most sessions of an experiment have been fed.
    sessions = Session.objects.filter(
        Q(is_open, experiment=experiment_id) | Q(~is_open, experiment=experiment_id, is_fed=False)
    )
    return sessions.annotate(task_text=text, waits=waits).filter(waits=False)


def _is_closed(queue: Queue | None) -> bool:
    return queue is not None and queue.state == Queue.State.CLOSED


def _note_attempts(experiment: Experiment, drawn: Mapping[UUID, UUID | None]) -> list[UUID]:
    """Record each side's first attempt at each task, among sessions that became a trajectory with steps; returns the tasks concerned."""
    sides = {experiment.policy_a_id: Side.A, experiment.policy_b_id: Side.B}
    paths = Path.objects.filter(session__in=drawn, is_main=True, trajectory__step_count__gt=0).order_by("session")
    attempts = [
        LiveAttempt(experiment=experiment, side=sides[policy], task_id=task, trajectory_id=trajectory)
        for session, trajectory, task in paths.values_list("session_id", "trajectory_id", "trajectory__task_id")
        if (policy := drawn[session]) in sides
    ]
    LiveAttempt.objects.bulk_create(attempts, ignore_conflicts=True)
    return list(dict.fromkeys(attempt.task_id for attempt in attempts))


def _matching(experiment: Experiment, tasks: list[UUID], remaining_tasks: int) -> Matching:
    """Pairs of those tasks that both sides have attempted by now, up to `remaining_tasks`."""
    waiting = LiveAttempt.objects.filter(experiment=experiment, task__in=tasks, is_paired=False).order_by("pk")
    rows = list(waiting.values_list("pk", "side", "task_id", "trajectory_id", "trajectory__course"))
    shared = {task for _, side, task, *_ in rows if side == Side.A} & {
        task for _, side, task, *_ in rows if side == Side.B
    }
    chosen = [task for task in tasks if task in shared][:remaining_tasks]
    rows = [row for row in rows if row[2] in set(chosen)]
    LiveAttempt.objects.filter(pk__in=[row[0] for row in rows]).update(is_paired=True)
    order = {task: index for index, task in enumerate(chosen)}
    sides = ([Attempt(*row[2:]) for row in rows if row[1] == side] for side in Side)
    a, b = (sorted(side, key=lambda attempt: order[attempt.task]) for side in sides)
    return match(a, b)


def _extend(experiment: Experiment, matching: Matching) -> None:
    before = experiment.queue.item_count if experiment.queue else 0
    if matching.pairs and experiment.queue:
        add_pairs(queue=experiment.queue, pairs=matching.pairs)
    elif matching.pairs:
        experiment.queue = blind_queue(experiment, matching.pairs)
    experiment.alike = [*experiment.alike, *([str(pair.task), before + pair.position] for pair in matching.alike)]
    experiment.save(update_fields=["alike", "queue"])
