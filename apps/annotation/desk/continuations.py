"""Continuations for annotators: a policy takes over in the middle of a trajectory. Requested at the desk, run by a worker."""

from __future__ import annotations

import hashlib
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.urls import reverse

from apps.annotation.kinds.questions import Alternatives
from apps.annotation.kinds.steps import ABLE
from apps.annotation.models import Continuation
from apps.annotation.refusals import CannotContinue
from apps.common.environments import ENVIRONMENTS
from apps.ingest.reading import read_line
from apps.jobs import lifecycle
from apps.jobs.models import Failure, JobState, Kind, register
from apps.policies.models import Policy
from apps.trajectories.imports.bulk_copy import Origin, copy_in
from apps.trajectories.imports.preparation import prepare
from apps.trajectories.models import Trajectory
from contract import jsontext

LOADED_TASK, SERVED_TASK = "continuations.run", "served_continuations.run"


def _task(continuation: Continuation) -> str:
    """Served models are called from any worker, so that annotators don't wait behind training runs."""
    return SERVED_TASK if continuation.policy.kind == Policy.Kind.ENDPOINT else LOADED_TASK


CONTINUATIONS = register(
    Kind(
        name="continuations",
        noun="continuation",
        label="Continuation",
        model=Continuation,
        task=_task,
        title=lambda continuation: f"{continuation.policy.name} at step {continuation.index + 1}",
        url=lambda continuation: reverse(
            "trajectories:step", args=[continuation.trajectory_id, continuation.index + 1]
        ),
        related=("policy__endpoint", "trajectory__task", "trajectory__policy"),
        listed_with=("policy",),
        lane="continuations",
        in_lane=Q(policy__kind=Policy.Kind.ENDPOINT),
        turns_at="generate",
        by_turns=~Q(policy__kind=Policy.Kind.ENDPOINT),
    )
)


def sample_actions(*, trajectory: Trajectory, index: int, asks: Alternatives) -> Continuation:
    """Sample the queue policy's actions at this step; concurrent and repeated requests share one continuation. Raises CannotContinue."""
    return _ask_for(trajectory, index, asks, count=asks.count, action=None)


def continue_from_action(
    *, trajectory: Trajectory, index: int, action: dict[str, Any], asks: Alternatives
) -> Continuation:
    """Execute `action` at this step and let the queue's policy continue to the end. Raises CannotContinue."""
    if trajectory.task.environment not in ENVIRONMENTS:
        raise CannotContinue(
            "The environment of this trajectory can't be restored here, so no policy can continue from it."
        )
    return _ask_for(trajectory, index, asks, count=1, action=action)


@transaction.atomic
def _ask_for(
    trajectory: Trajectory, index: int, asks: Alternatives, *, count: int, action: dict[str, Any] | None
) -> Continuation:
    policy = Policy.objects.filter(pk=asks.policy, workspace=trajectory.workspace_id, archived_at=None).first()
    if policy is None or policy.kind not in ABLE:
        raise CannotContinue(
            "The policy that this queue names can't act anymore. A researcher can create a queue with another one."
        )
    if not 0 <= index < trajectory.step_count:
        raise CannotContinue(f"There is no step {index + 1}: this trajectory has {trajectory.step_count}.")
    fields = {
        "trajectory": trajectory,
        "index": index,
        "policy": policy,
        "count": count,
        "temperature": asks.temperature,
        "action_hash": hashlib.sha256(jsontext.canonical(action)).hexdigest() if action else "",
    }
    if action:  # of one whose trajectory was deleted, nothing is left to show
        Continuation.objects.filter(**fields, state=JobState.DONE, branch=None).delete()
    alike = Continuation.objects.exclude(state=JobState.FAILED)
    if existing := alike.filter(**fields).first():
        return existing
    try:
        with transaction.atomic():
            continuation = Continuation.objects.create(**fields, workspace_id=trajectory.workspace_id, action=action)
    except IntegrityError:  # somebody else requested the same concurrently
        return alike.get(**fields)
    lifecycle.queue(continuation)
    return continuation


def finish_sampling(continuation: Continuation, *, messages: list[dict[str, Any]], problem: str = "") -> None:
    """Store the distinct sampled actions; if there are none, it failed because of `problem`. Raises Superseded."""
    different = [message for index, message in enumerate(messages) if message not in messages[:index]]
    if different:
        lifecycle.finish(continuation, messages=different)
    else:
        lifecycle.fail(continuation, Failure("no_answer", f"The policy gave no answer here. {problem}".strip()))


@transaction.atomic
def finish_continuation(continuation: Continuation, *, line: bytes) -> None:
    """Store the new trajectory as a branch of the original one. Raises Superseded."""
    record = read_line(line)
    record.info = {**record.info, "continuation": str(continuation.pk)}
    prepared = prepare(record, line)
    copy_in([prepared], Origin(continuation.workspace_id, "branch", policy_id=continuation.policy_id))
    Trajectory.objects.filter(pk=prepared.id).update(parent=continuation.trajectory_id, branch_step=continuation.index)
    lifecycle.finish(continuation, branch_id=prepared.id, done=1)
