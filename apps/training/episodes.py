"""Episodes of training runs and rollouts whose agent runs outside Retrace. Runners lease them, and each is answered once.

A run's episodes are opened by its worker; those of rollouts by `runner_rollouts`. Leasing an episode opens a session: its calls, events, and
renewals keep the lease, and a session that goes silent or is abandoned returns its episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Min, Q, QuerySet
from django.utils.timezone import now

from apps.accounts.models import ApiToken, Membership
from apps.common.compiled_queries import CompiledQuery
from apps.common.ids import first_id_at
from apps.gateway.models import Session
from apps.gateway.queries import episode_of
from apps.gateway.sessions import (
    NewSession,
    NotServed,
    SessionOver,
    abandon_session,
    open_session,
    open_training_session,
)
from apps.gateway.splits.routing import sampling_of
from apps.jobs import lifecycle
from apps.jobs.models import Failure, Phase, Superseded
from apps.training.models import Episode, EpisodeBatch, Run
from apps.trajectories.models import RolloutBatch
from contract.episodes import Batch, PlayedEpisode

MAX_LOSSES = 3
"""Times an episode may be lost before it's no longer leased: whatever crashes its runners isn't the policy's fault."""
LEASED = ("session", "losses")
"""Columns that a lease changes."""
CLOCKS_DIFFER = timedelta(minutes=1)
"""How much the clocks of workers and web servers may differ."""
KEPT_BATCHES = 2
"""Batches kept per run, with their sessions: the open one and the previous one, so that late runners are still told it's over."""


class Lease(NamedTuple):
    """An episode to play, and the session to play it in."""

    episode: Episode
    opened: NewSession


@transaction.atomic
def open_batch(run: Run, batch: Batch) -> None:
    """Open a batch of episodes for the trainer and close all others of this run. Idempotent. Raises Superseded."""
    lifecycle.hold(run)
    if EpisodeBatch.objects.filter(pk=batch.id, closed_at=None).exists():
        return
    close_batches(run)
    batch_row = EpisodeBatch.objects.create(
        pk=batch.id,
        run=run,
        moment=batch.moment[:100],
        address=batch.address,
        lease_seconds=batch.lease_seconds,
        most_calls=batch.most_calls,
    )
    Episode.objects.bulk_create(
        Episode(
            pk=episode.id,
            batch=batch_row,
            task=episode.task.to_json(),
            environment=episode.task.environment,
            attempt=episode.attempt,
        )
        for episode in batch.episodes
    )


@transaction.atomic
def close_batches(run: Run) -> None:
    """Close the run's batches: open sessions are abandoned, and all but the latest batches are deleted. Raises Superseded.

    A worker that was suspended for longer than its lease must not close the batches of the one that continues.
    """
    lifecycle.hold(run)
    batches = EpisodeBatch.objects.filter(run=run)
    batches.filter(closed_at=None).update(closed_at=now())
    _abandon_all(Session.objects.open().filter(episode__batch__run=run), "The step continued without it.")
    kept_ids = list(batches.order_by("-opened_at").values_list("pk", flat=True)[: KEPT_BATCHES - 1])
    old_ones = batches.exclude(pk__in=kept_ids)
    Session.objects.filter(episode__batch__in=old_ones).delete()
    _delete_lost(run, old_ones)
    old_ones.delete()


def _delete_lost(run: Run, batches: QuerySet[EpisodeBatch]) -> None:
    """Delete the sessions of lost leases, which no episode names any more: they're recognized by their batch's address, which is its own."""
    if oldest := batches.aggregate(oldest=Min("opened_at"))["oldest"]:
        since = first_id_at(oldest - CLOCKS_DIFFER)  # so that few of the workspace's sessions are looked at
        lost = Session.objects.filter(workspace=run.workspace_id, pk__gte=since, episode=None)
        lost.filter(training_address__in=batches.values("address")).delete()


def ended_episodes(batch_id: UUID) -> Iterator[tuple[Episode, PlayedEpisode | None]]:
    """Ended episodes that haven't been reported to the trainer, each with its result, or None if it was given up."""
    unanswered = Episode.objects.filter(batch=batch_id, answered_at=None).select_related("session")
    for episode in unanswered.filter(Q(session__state=Session.State.FINISHED) | Q(losses__gte=MAX_LOSSES)):
        is_finished = episode.session is not None and episode.session.state == Session.State.FINISHED
        yield episode, episode_of(episode.session) if is_finished and episode.session else None


def mark_answered(episode: Episode) -> None:
    """Record that the trainer has the result."""
    Episode.objects.filter(pk=episode.pk).update(answered_at=now())


def lease(
    *,
    member: Membership,
    runner: str,
    environment: str = "",
    run_id: UUID | None = None,
    rollouts_id: UUID | None = None,
    token: ApiToken | None = None,
) -> Lease | None:
    """Lease an episode to a runner; None if there's nothing to play now."""
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            # Don't wait for the disk. If the database's machine fails before it has written the lease, the episode is leased again.
            cursor.execute("SET LOCAL synchronous_commit = off")
            filters = {"environment": environment, "run": run_id, "rollouts": rollouts_id}
            chosen = {name: value for name, value in filters.items() if value}
            episode = _waiting(frozenset(chosen)).first(workspace=member.workspace_id, at=now(), **chosen)
            if episode is None:
                return None
            if episode.session is not None and not _is_lost(episode):
                continue  # it ended or was renewed after the query
            if episode.losses >= MAX_LOSSES:
                episode.save(update_fields=LEASED)
                continue
            leased = _leased(episode, member=member, runner=runner, token=token)
            if leased is not None:
                return leased


_TYPES: dict[str, type[Any]] = {"workspace": UUID, "at": datetime, "environment": str, "run": UUID, "rollouts": UUID}


@cache
def _waiting(filters: frozenset[str]) -> CompiledQuery[Episode]:
    """The first unleased episode of active runs and rollouts, of the oldest batch, locked; those that others lease now are skipped.

    filters: which of the environment, the run, and the rollouts the episode must be of.
    """
    return CompiledQuery(_unleased, **{name: _TYPES[name] for name in {"workspace", "at", *filters}})


def _unleased(workspace: UUID, at: datetime, **filters: str | UUID) -> QuerySet[Episode]:
    free = (
        Q(session=None)
        | Q(session__state=Session.State.ABANDONED)
        | Q(session__state=Session.State.OPEN, session__expires_at__lte=at)
    )
    going_on = Q(run__workspace=workspace, run__state__in=Run.states_in(Phase.RUNNING)) | Q(
        rollouts__workspace=workspace, rollouts__state__in=RolloutBatch.states_in(Phase.RUNNING)
    )
    columns = {"environment": "environment", "run": "batch__run", "rollouts": "batch__rollouts"}
    episodes = Episode.objects.filter(
        free,
        batch__in=EpisodeBatch.objects.filter(going_on, closed_at=None),
        answered_at=None,
        losses__lt=MAX_LOSSES,
        **{columns[name]: value for name, value in filters.items()},
    )
    related = ("batch__run", "batch__rollouts__policy__endpoint", "session")
    return (
        episodes.select_related(*related)
        .order_by("batch_id", "id")
        .select_for_update(of=["self"], skip_locked=True)[:1]
    )


def _is_lost(episode: Episode) -> bool:
    """Count the loss of its session, unless it was just finished or renewed."""
    session = Session.objects.select_for_update().filter(episode=episode).first()
    if session is not None and session.state != Session.State.ABANDONED:
        if not session.is_open or session.expires_at > now():
            return False
        _abandon(session, "Its runner was silent for longer than its lease.")
    episode.losses += 1
    episode.session = None
    return True


def _abandon(session: Session, problem: str) -> None:
    try:
        abandon_session(session=session, problem=problem)
    except SessionOver:  # it was finished meanwhile
        return


def _abandon_all(sessions: QuerySet[Session], problem: str) -> None:
    for session in list(sessions.order_by("pk")):
        _abandon(session, problem)


def close_batch(batch: EpisodeBatch, problem: str) -> None:
    """Close a batch. Open sessions are abandoned with `problem` as the reason."""
    EpisodeBatch.objects.filter(pk=batch.pk).update(closed_at=now())
    _abandon_all(Session.objects.open().filter(episode__batch=batch), problem)


def _leased(episode: Episode, *, member: Membership, runner: str, token: ApiToken | None) -> Lease | None:
    """The lease; None if no server can answer for the policy, in which case its rollouts fail."""
    batch = episode.batch
    columns: dict[str, Any] = {
        "workspace": member.workspace,
        "by": member.user,
        "token": token,
        "task": episode.task,
        "attempt": episode.attempt,
        "agent": runner,
        "max_calls": batch.most_calls,
        "idle_seconds": batch.lease_seconds,
    }
    if batch.run is not None:
        name = f"{batch.run.name}, {batch.moment}"
        opened = open_training_session(address=batch.address, name=name, **columns)
    else:
        rollouts = batch.rollouts
        assert rollouts is not None, "the database holds that it's of a run or of rollouts"
        sampling = sampling_of(rollouts.policy)
        try:
            opened = open_session(policy=rollouts.policy, sampling=sampling, rollout_batch=rollouts, **columns)
        except NotServed as refusal:
            with suppress(Superseded):  # it was cancelled meanwhile
                lifecycle.fail(rollouts, Failure("config", str(refusal), "Then resume these rollouts."))
            return None
    episode.session = opened.session
    episode.save(update_fields=LEASED)
    if batch.began_at is None:
        EpisodeBatch.objects.filter(pk=batch.pk, began_at=None).update(began_at=now())
    return Lease(episode, opened)
