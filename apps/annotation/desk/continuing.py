"""Having a policy take over in the middle of a run, for annotators: asked for at the desk, done by a worker."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.timezone import now

from apps.annotation.kinds.asks import Alternatives
from apps.annotation.models import Continuation
from apps.annotation.models.continuations import ContinuationQuerySet
from apps.annotation.refusals import CannotContinue
from apps.common.broker import enqueue
from apps.common.environments import ENVIRONMENTS
from apps.common.leases import REMIND_AFTER, Superseded, lease
from apps.ingest.reading import read_line
from apps.policies.models import Policy
from apps.trajectories.imports.copying import Origin, copy_in
from apps.trajectories.imports.preparing import prepare
from apps.trajectories.models import JobState, Trajectory
from contract import jsontext

LOADED_TASK, SERVED_TASK = "continuations.run", "served_continuations.run"
MAX_LOSSES = 3
ABLE = (Policy.Kind.MODEL, Policy.Kind.ENDPOINT)


def sample_actions(*, run: Trajectory, index: int, asks: Alternatives) -> Continuation:
    """What the queue's policy would do at this step; asked for twice, it is sampled once. Raises CannotContinue."""
    return _ask_for(run, index, asks, count=asks.count, action=None)


def run_on(*, run: Trajectory, index: int, action: dict[str, Any], asks: Alternatives) -> Continuation:
    """How it ends if `action` is done at this step and the queue's policy goes on. Raises CannotContinue."""
    if run.task.environment not in ENVIRONMENTS:
        raise CannotContinue("The world of this run cannot be set up again here, so nobody can go on in it.")
    return _ask_for(run, index, asks, count=1, action=action)


@transaction.atomic
def _ask_for(
    run: Trajectory, index: int, asks: Alternatives, *, count: int, action: dict[str, Any] | None
) -> Continuation:
    policy = Policy.objects.filter(pk=asks.policy, workspace=run.workspace_id, archived_at=None).first()
    if policy is None or policy.kind not in ABLE:
        raise CannotContinue(
            "The policy that this queue names cannot act any more. A researcher can make a queue with another."
        )
    if not 0 <= index < run.step_count:
        raise CannotContinue(f"There is no step {index + 1}: this run has {run.step_count}.")
    wanted = {
        "trajectory": run,
        "index": index,
        "policy": policy,
        "count": count,
        "temperature": asks.temperature,
        "action_hash": hashlib.sha256(jsontext.canonical(action)).hexdigest() if action else "",
    }
    alike = Continuation.objects.exclude(state=JobState.FAILED)
    if found := alike.filter(**wanted).first():
        return found
    try:
        with transaction.atomic():
            made = Continuation.objects.create(**wanted, workspace_id=run.workspace_id, action=action)
    except IntegrityError:  # somebody else asked for the same at this moment
        return alike.get(**wanted)
    _tell_workers(made)
    return made


# What a worker writes -------------------------------------------------------------------------------------------------


def claim(continuation_id: UUID | str) -> Continuation | None:
    """Take a waiting one; None when it is taken or gone."""
    taken = Continuation.objects.filter(pk=continuation_id, state=JobState.WAITING).update(
        state=JobState.RUNNING, attempt=F("attempt") + 1, leased_until=now() + lease()
    )
    rows = Continuation.objects.select_related("policy__endpoint", "trajectory__task", "trajectory__policy")
    return rows.get(pk=continuation_id) if taken else None


def renew(continuation: Continuation) -> None:
    """Keep it for another lease. Raises Superseded."""
    _write(continuation, leased_until=now() + lease())


def note_progress(continuation: Continuation, *, done: int) -> None:
    """So many actions are sampled. Raises Superseded."""
    _write(continuation, done=done)


def finish_sampling(continuation: Continuation, *, messages: list[dict[str, Any]], problem: str = "") -> None:
    """The different ones of the sampled actions; without any, it failed for `problem`. Raises Superseded."""
    different = [message for place, message in enumerate(messages) if message not in messages[:place]]
    if different:
        _write(continuation, state=JobState.DONE, messages=different, leased_until=None)
    else:
        fail(continuation, error=f"The policy gave no answer here. {problem}".strip())


@transaction.atomic
def finish_going_on(continuation: Continuation, *, line: bytes) -> None:
    """Store the new trajectory as a branch of the run. Raises Superseded."""
    record = read_line(line)
    record.info = {**record.info, "continuation": str(continuation.pk)}
    prepared = prepare(record, line)
    copy_in([prepared], Origin(continuation.workspace_id, "branch", policy_id=continuation.policy_id))
    Trajectory.objects.filter(pk=prepared.id).update(parent=continuation.trajectory_id, branch_step=continuation.index)
    _write(continuation, state=JobState.DONE, branch_id=prepared.id, done=1, leased_until=None)


def fail(continuation: Continuation, *, error: str) -> None:
    """It cannot be done. Raises Superseded."""
    _write(continuation, state=JobState.FAILED, error=error, leased_until=None)


@transaction.atomic
def release(continuation: Continuation) -> None:
    """Give it back: its worker is going away in good order. Raises Superseded."""
    _write(continuation, state=JobState.WAITING)
    _tell_workers(continuation)


def recover_continuations() -> int:
    """Give orphaned ones to other workers, and remind the workers of those that wait too long; how many were orphaned."""
    orphaned = list(Continuation.objects.orphaned().select_related("policy")[:100])
    for lost in orphaned:
        held: ContinuationQuerySet = Continuation.objects.orphaned().filter(pk=lost.pk, attempt=lost.attempt)
        if lost.losses + 1 >= MAX_LOSSES:
            held.update(
                state=JobState.FAILED, error="Workers stopped answering over this. Ask again later.", leased_until=None
            )
        elif held.update(state=JobState.WAITING, losses=F("losses") + 1):
            _tell_workers(lost)
    for waiting in Continuation.objects.overlooked().select_related("policy")[:100]:
        _tell_workers(waiting)
    return len(orphaned)


def _tell_workers(continuation: Continuation) -> None:
    """A served model is asked from any worker, so that nobody at the desk waits behind a training run."""
    Continuation.objects.filter(pk=continuation.pk).update(leased_until=now() + REMIND_AFTER)
    is_served = continuation.policy.kind == Policy.Kind.ENDPOINT
    enqueue(SERVED_TASK if is_served else LOADED_TASK, str(continuation.pk))


def _write(continuation: Continuation, **changes: Any) -> None:
    if not Continuation.objects.held(continuation.attempt).filter(pk=continuation.pk).update(**changes):
        raise Superseded(continuation)
