"""Sending a policy to attempt tasks of a built-in environment. What comes back arrives like imported trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils.timezone import now

from apps.accounts import auditing
from apps.accounts.models import User, Workspace
from apps.common.broker import enqueue
from apps.common.environments import ENVIRONMENTS
from apps.common.leases import REMIND_AFTER
from apps.policies.locations import LocationRefused, refuse_unusable_location
from apps.policies.models import Policy
from apps.trajectories.models import JobState, RolloutBatch
from apps.trajectories.rollouts import following

TASK = "rollouts.run"
MOST_EPISODES = 20_000


class RolloutRefused(Exception):
    """Why these rollouts cannot be: what was asked, what is possible."""


class CannotAct(RolloutRefused):
    """A reward model scores and a name alone does nothing."""


class UnknownTasks(RolloutRefused):
    """There is no such environment, level or split."""


class TooMany(RolloutRefused):
    """More episodes than one batch may have."""


class NotRollingOut(Exception):
    """There is nothing to cancel any more."""


class NotResumable(Exception):
    """Only a cancelled or failed batch can be taken up again."""


@transaction.atomic
def start_rollouts(
    *,
    workspace: Workspace,
    policy: Policy,
    environment: str,
    tasks: Mapping[str, Any],
    by: User | None,
    samples: int = 1,
    seed: int = 0,
    sampling: Mapping[str, Any] | None = None,
    budget: Mapping[str, Any] | None = None,
    tool_calls: str = "native",
) -> RolloutBatch:
    """Have a worker let `policy` attempt tasks of `environment`, `samples` times each.

    tasks: split ("held_out" or "train"), count, seed, and levels (none means all of them). The same words draw the same tasks
    every time, so two policies can be compared on them. sampling and budget are as in the trainer's `Sampling` and `Budget`. tool_calls:
    "native", or "react" for a language model that knows no tools.
    Raises RolloutRefused.
    """
    levels: Sequence[str] = tasks.get("levels") or ()
    count = int(tasks.get("count") or 50)
    if policy.workspace_id != workspace.pk or policy.kind in Policy.SILENT:
        raise CannotAct(
            f"{policy} is a {policy.get_kind_display().lower()}; choose a language model, a scripted rule or a served model."
        )
    if policy.kind == Policy.Kind.MODEL:
        try:
            refuse_unusable_location(policy)
        except LocationRefused as refused:
            raise CannotAct(str(refused)) from None
    if environment not in ENVIRONMENTS:
        raise UnknownTasks(f"There is no environment {environment!r}; known: {', '.join(ENVIRONMENTS)}.")
    if unknown := set(levels) - set(ENVIRONMENTS[environment].levels):
        raise UnknownTasks(
            f"{environment} has no level {sorted(unknown)[0]!r}; it has {', '.join(ENVIRONMENTS[environment].levels)}."
        )
    if tasks.get("split", "held_out") not in ("held_out", "train"):
        raise UnknownTasks(f"The split is {tasks['split']!r}; expected held_out or train.")
    if not 1 <= count * samples <= MOST_EPISODES:
        raise TooMany(
            f"{count} tasks × {samples} runs is {count * samples:,} episodes; a batch has 1 to {MOST_EPISODES:,}."
        )
    batch = RolloutBatch.objects.create(
        workspace=workspace,
        policy=policy,
        environment=environment,
        config={
            "tasks": {
                "split": tasks.get("split", "held_out"),
                "count": count,
                "levels": list(levels),
                "seed": int(tasks.get("seed") or 0),
            },
            "samples": samples,
            "seed": seed,
            **({"sampling": dict(sampling)} if sampling else {}),
            **({"budget": dict(budget)} if budget else {}),
            **({"tool_calls": tool_calls} if tool_calls != "native" else {}),
        },
        total=count * samples,
        created_by=by,
    )
    _record(batch, by, "started rollouts")
    queue_rollouts(batch)
    return batch


def queue_rollouts(batch: RolloutBatch) -> None:
    """Tell the workers about a waiting batch, and remember when to tell them again should nobody answer."""
    RolloutBatch.objects.filter(pk=batch.pk, state=JobState.WAITING).update(leased_until=now() + REMIND_AFTER)
    enqueue(TASK, str(batch.pk))


@transaction.atomic
def cancel_rollouts(*, batch: RolloutBatch, by: User) -> RolloutBatch:
    """Stop a batch at once; what has arrived stays. Raises NotRollingOut."""
    cancelled = RolloutBatch.objects.filter(pk=batch.pk, state__in=[JobState.WAITING, JobState.RUNNING]).update(
        state=JobState.CANCELLED, finished_at=now(), leased_until=None
    )
    batch.refresh_from_db()
    if not cancelled:
        raise NotRollingOut(f"These rollouts are {batch.get_state_display().lower()}; there is nothing to cancel.")
    _record(batch, by, "cancelled rollouts")
    transaction.on_commit(lambda: following.end_all(batch.pk))
    return batch


@transaction.atomic
def resume_rollouts(*, batch: RolloutBatch, by: User) -> RolloutBatch:
    """Take a cancelled or failed batch up again; episodes that were played are not played again. Raises NotResumable."""
    resumed = RolloutBatch.objects.filter(pk=batch.pk, state__in=[JobState.CANCELLED, JobState.FAILED]).update(
        state=JobState.WAITING, error="", failure={}, losses=0, finished_at=None, worker="", process_id=None
    )
    batch.refresh_from_db()
    if not resumed:
        raise NotResumable(
            f"These rollouts are {batch.get_state_display().lower()}; only cancelled or failed ones can be resumed."
        )
    _record(batch, by, "resumed rollouts")
    queue_rollouts(batch)
    return batch


def _record(batch: RolloutBatch, by: User | None, action: str) -> None:
    auditing.record(
        workspace=batch.workspace,
        actor=by,
        action=action,
        subject=f"{batch.policy.name} in {batch.environment}",
        about=batch,
        **batch.config,
    )
