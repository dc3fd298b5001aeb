"""Rollouts played by runners outside Retrace: started, opened for leasing, counted as sessions end, and closed when done or past their deadline.

No worker holds such a batch while it's played, so the job runs without a lease, and every step is idempotent.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Q, Value
from django.db.models.functions import MD5, Concat
from django.utils.timezone import now

from apps.accounts.models import Membership, User, Workspace
from apps.common import quantities
from apps.common.ids import new_id
from apps.common.workspace_turns import do_in_workspace_turns
from apps.gateway.models import Session
from apps.gateway.targets import target_of
from apps.jobs import lifecycle
from apps.jobs.models import Failure, Phase, Superseded
from apps.policies.models import Policy
from apps.training import live
from apps.training.episodes import MAX_LOSSES, close_batch
from apps.training.models import Episode, EpisodeBatch
from apps.training.workspace_tasks import tasks_in
from apps.trajectories.export import task_record
from apps.trajectories.models import RolloutBatch, Trajectory
from apps.trajectories.rollouts.rollout_batches import (
    MAX_EPISODES,
    ROLLOUTS,
    CannotAct,
    RolloutRefused,
    TooMany,
    UnknownTasks,
    record_start,
)
from contract import jsontext
from contract.trajectory import Task

LEASE_SECONDS = 120
DEADLINE_SECONDS = 24 * 3600
MAX_DEADLINE_SECONDS = 7 * 24 * 3600
MAX_CALLS = 20
"""Default maximum of calls in an episode."""
MAX_RUNNER_CALLS = 1000
"""The largest maximum."""
TURN_SECONDS = 5.0
"""How long batches of one workspace are counted before those of the next."""
MAX_BYTES = 64_000_000
"""Total size of the tasks of all episodes; each episode stores its own copy."""
USUAL_COUNT = 30
"""Default number of tasks to draw."""
LISTED = "listed"
"""Stands in for a split if the tasks were listed and not all of them are held out."""


class NobodyServes(RolloutRefused):
    """No endpoint serves the policy, so there's nowhere for runners to send their chats."""


def draw_tasks(
    workspace_id: UUID, environment: str, *, split: str, count: int, seed: int = 0, levels: Sequence[str] = ()
) -> list[Task]:
    """Draw up to `count` matching tasks of a workspace's environment. Deterministic for a seed. Raises UnknownTasks."""
    held_out = split == "held_out"
    candidates = tasks_in(workspace_id, environment, levels).filter(held_out=held_out)
    drawn = candidates.annotate(place=MD5(Concat(Value(f"{seed} "), "key"))).order_by("place", "pk")[:count]
    tasks = [task_record(task) for task in drawn]
    if not tasks:
        raise UnknownTasks(
            f"The workspace has no {'held-out' if held_out else 'training'} task of {environment!r}. List tasks, or record or import attempts at some."
        )
    return tasks


def start_for_runners(
    *,
    member: Membership,
    policy: Policy,
    environment: str,
    listed: Sequence[Task],
    split: str,
    count: int,
    seed: int,
    levels: Sequence[str] = (),
    **columns: Any,
) -> RolloutBatch:
    """Start rollouts on the tasks that a member listed or, if there are none, on tasks drawn at random. Raises RolloutRefused."""
    drawn: dict[str, Any] = {}
    if not listed:
        drawn = {"split": split, "seed": seed, "levels": levels}
        listed = draw_tasks(member.workspace_id, environment, count=count, **drawn)
    return start_runner_rollouts(
        workspace=member.workspace,
        policy=policy,
        environment=environment,
        tasks=listed,
        by=member.user,
        **drawn,
        **columns,
    )


@transaction.atomic
def start_runner_rollouts(
    *,
    workspace: Workspace,
    policy: Policy,
    environment: str,
    tasks: Sequence[Task],
    by: User | None,
    split: str = LISTED,
    seed: int = 0,
    levels: Sequence[str] = (),
    samples: int = 1,
    max_calls: int = MAX_CALLS,
    lease_seconds: int = LEASE_SECONDS,
    deadline_seconds: int = DEADLINE_SECONDS,
) -> RolloutBatch:
    """Have runners let `policy` attempt each of `tasks`, `samples` times.

    split, seed, levels: how the tasks were drawn, if they weren't listed. Raises RolloutRefused.
    """
    if policy.workspace_id != workspace.pk or target_of(policy) is None:
        raise NobodyServes(
            f"{policy} isn't served anywhere, so runners can't reach it. Publish it on a server first, or choose a served model."
        )
    if policy.kind in Policy.SILENT:
        raise CannotAct(
            f"{policy} is a {policy.get_kind_display().lower()}; choose a language model or a served model."
        )
    _refuse_too_much(tasks, samples)
    if split == LISTED and all(task.held_out for task in tasks):
        split = "held_out"
    batch = RolloutBatch.objects.create(
        workspace=workspace,
        policy=policy,
        environment=environment,
        config={
            "played_by": "runners",
            "tasks": {"split": split, "count": len(tasks), "levels": list(levels), "seed": seed},
            "samples": samples,
            "budget": {"steps": max_calls},
            "lease_seconds": lease_seconds,
            "deadline_seconds": deadline_seconds,
        },
        total=len(tasks) * samples,
        created_by=by,
    )
    episodes = EpisodeBatch.objects.create(
        pk=new_id(),
        rollouts=batch,
        lease_seconds=lease_seconds,
        most_calls=max_calls,
        deadline_seconds=deadline_seconds,
    )
    Episode.objects.bulk_create(
        Episode(
            pk=new_id(),
            batch=episodes,
            task=replace(task, environment=environment).to_json(),
            environment=environment,
            attempt=attempt,
        )
        for attempt in range(samples)
        for task in tasks
    )
    record_start(batch)
    _open(batch.pk)  # at once: thousands of batches would keep the workers busy
    batch.refresh_from_db(fields=["state", "attempt", "started_at"])
    return batch


def _refuse_too_much(tasks: Sequence[Task], samples: int) -> None:
    if not 1 <= len(tasks) * samples <= MAX_EPISODES:
        raise TooMany(
            f"{len(tasks):,} tasks × {samples} attempts is {len(tasks) * samples:,} episodes; a batch has 1 to {MAX_EPISODES:,}."
        )
    ids: set[str] = set()
    for task in tasks:
        if task.key in ids:
            raise UnknownTasks(
                f"Two tasks have the key {task.key!r:.300}. Give each one of its own, and set attempts for more."
            )
        ids.add(task.key)
    size = samples * sum(len(jsontext.dumps(task.to_json())) for task in tasks)
    if size > MAX_BYTES:
        raise TooMany(
            f"The tasks of all episodes are {quantities.size(size)}; a batch has {quantities.size(MAX_BYTES)} at most. Start several batches."
        )


def open_to_runners(batch_id: UUID) -> None:
    """Let runners lease the unplayed episodes of a batch that was resumed. Idempotent."""
    if _open(batch_id):
        live.show_rollouts(batch_id)


@transaction.atomic
def _open(batch_id: UUID) -> bool:
    """Whether it was waiting."""
    job = lifecycle.claim(ROLLOUTS, batch_id)
    if job is None:
        return False
    lifecycle.write(job, leased_until=None, worker="")
    batch = EpisodeBatch.objects.select_for_update().get(rollouts=job)
    EpisodeBatch.objects.filter(pk=batch.pk).update(closed_at=None, began_at=None)
    # Episodes that were given up, finished without a chat, or interrupted before the resume begin anew.
    is_played = Q(session__state=Session.State.FINISHED, session__paths__isnull=False)
    unplayed = Episode.objects.filter(batch=batch).exclude(is_played).values("pk")
    over = Episode.objects.filter(pk__in=unplayed, session__isnull=False).exclude(session__state=Session.State.OPEN)
    Episode.objects.filter(pk__in=list(over.values_list("pk", flat=True))).update(session=None)
    Episode.objects.filter(pk__in=unplayed).update(answered_at=None, losses=0)
    return True


def count_all() -> None:
    """Count finished episodes of all batches, and close those that are complete.

    Each workspace gets a few seconds, since it may have thousands of batches that wait for runners.
    """
    open_batches = EpisodeBatch.objects.filter(closed_at=None, rollouts__isnull=False)
    batches = RolloutBatch.objects.filter(pk__in=open_batches.values("rollouts"))
    do_in_workspace_turns(batches, lambda batch: count(batch.pk), name="batches-of-runners", seconds=TURN_SECONDS)


def count(batch_id: UUID) -> None:
    """Count the finished episodes of one batch, and close it if it's complete."""
    with suppress(Superseded):  # it was canceled meanwhile; the next pass handles it
        if _count(batch_id):
            live.show_rollouts(batch_id)


@transaction.atomic
def _count(batch_id: UUID) -> bool:
    """Whether there was anything to count."""
    open_batches = EpisodeBatch.objects.select_for_update(of=["self"]).filter(rollouts=batch_id, closed_at=None)
    batch = open_batches.select_related("rollouts").first()
    if batch is None or batch.rollouts is None or batch.rollouts.phase == Phase.WAITING:
        return False
    job = batch.rollouts
    if job.phase != Phase.RUNNING:
        close_batch(batch, "These rollouts were stopped.")
    ended = Episode.objects.filter(batch=batch, answered_at=None)
    ended = ended.filter(Q(session__state=Session.State.FINISHED) | Q(losses__gte=MAX_LOSSES))
    Episode.objects.filter(pk__in=ended.values("pk")).update(answered_at=now())
    counts = Trajectory.objects.filter(rollout_batch=job).aggregate(
        finished=Count("pk"), succeeded=Count("pk", filter=Q(success=True))
    )
    RolloutBatch.objects.filter(pk=job.pk).update(**counts)
    if job.phase == Phase.RUNNING and _is_over(batch, played=counts["finished"]):
        close_batch(batch, "The batch of rollouts ended without it.")
        if counts["finished"]:
            lifecycle.finish(job)
        else:
            lifecycle.fail(job, _failure())
    return True


def _is_over(batch: EpisodeBatch, *, played: int) -> bool:
    """Whether every episode has ended, or some were played and the deadline has passed, as in a step of a training run."""
    if not Episode.objects.filter(batch=batch, answered_at=None).exists():
        return True
    if not (played and batch.began_at and batch.deadline_seconds):
        return False
    return now() > batch.began_at + timedelta(seconds=batch.deadline_seconds)


def _failure() -> Failure:
    return Failure(
        "data",
        "No episode was played to its end. The runners failed repeatedly at each of them, or finished them without a chat.",
        "Check your runners' output, repair the agent, and resume.",
    )
