"""Starts rollouts of a policy on tasks of a built-in environment, and stores the results with the same code as imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.common.broker import enqueue
from apps.common.environments import ENVIRONMENTS
from apps.ingest.reading import read_line
from apps.jobs import lifecycle
from apps.jobs.models import Event, Kind, Phase, register
from apps.policies.locations import LocationRefused, refuse_unusable_location
from apps.policies.models import Policy
from apps.trajectories.imports.bulk_copy import Origin, copy_in
from apps.trajectories.imports.preparation import Prepared, prepare
from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts import live_episodes
from apps.webhooks.events import EventType

TASK = "rollouts.run"
RUNNERS_TASK = "runners.open_rollouts"
"""Hands out a batch's episodes to runners."""


def _after_event(batch: RolloutBatch, event: Event) -> None:
    if event.kind in ("finished", "failed"):
        enqueue("experiments.advance_all")  # an experiment may be waiting for this batch
    if event.kind == "cancelling":
        transaction.on_commit(lambda: live_episodes.end_all(batch.pk), robust=True)


ROLLOUTS = register(
    Kind(
        name="rollouts",
        noun="batch of rollouts",
        label="Rollouts",
        model=RolloutBatch,
        task=lambda batch: RUNNERS_TASK if batch.is_of_runners else TASK,
        title=lambda batch: f"{batch.policy.name} in {batch.environment}" if batch.environment else batch.policy.name,
        url=lambda batch: reverse("training:rollouts", args=[batch.pk]),
        on_event=_after_event,
        webhook_events={Phase.DONE: EventType.ROLLOUTS_FINISHED, Phase.FAILED: EventType.ROLLOUTS_FAILED},
        related=("policy__endpoint", "workspace"),
        listed_with=("policy",),
        turns_at="generate",
        by_turns=~Q(config__contains={"played_by": "runners"}),
        is_cancellable=True,
        is_resumable=True,
    )
)


MAX_EPISODES = 20_000
MAX_STEPS = 200
"""The largest number of steps after which an attempt may be cut off."""


class RolloutRefused(Exception):
    """Why these rollouts can't be started: what was asked, and what is possible."""


class CannotAct(RolloutRefused):
    """The policy can't act: a reward model only scores, and a bare name does nothing."""


class UnknownTasks(RolloutRefused):
    """There is no such environment, level, or split."""


class TooMany(RolloutRefused):
    """More episodes than a batch may have."""


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
    """Have a worker run `policy` on tasks of `environment`, `samples` times each.

    tasks: split ("held_out" or "train"), count, seed, and levels (none means all of them). Equal selections draw equal tasks,
    so two policies can be compared on them. sampling and budget are as in the trainer's `Sampling` and `Budget`. tool_calls:
    "native", or "react" for a language model without tool calling.
    Raises RolloutRefused.
    """
    levels: Sequence[str] = tasks.get("levels") or ()
    count = int(tasks.get("count") or 50)
    if policy.workspace_id != workspace.pk or policy.kind in Policy.SILENT:
        raise CannotAct(
            f"{policy} is a {policy.get_kind_display().lower()}; choose a language model, a script, or a served model."
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
    if not 1 <= count * samples <= MAX_EPISODES:
        raise TooMany(
            f"{count} tasks × {samples} attempts is {count * samples:,} episodes; a batch has 1 to {MAX_EPISODES:,}."
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
    record_start(batch)
    lifecycle.queue(batch)
    return batch


def record_start(batch: RolloutBatch) -> None:
    """Record who started a new batch."""
    audit.record(
        workspace=batch.workspace,
        actor=batch.created_by,
        action="started rollouts",
        subject=f"{batch.policy.name} in {batch.environment or 'no environment'}",
        target=batch,
        **batch.config,
    )


def prepare_line(batch: RolloutBatch, line: bytes) -> Prepared:
    """Read one line of the trainer's output with the importer of Retrace's own format.

    The batch becomes part of the record's content: two batches that play the same episode yield two trajectories.
    """
    record = read_line(line)
    record.info = {**record.info, "rollout": str(batch.pk)}
    return prepare(record, line)


@transaction.atomic
def store(batch: RolloutBatch, prepared: Sequence[Prepared], *, begin: int, end: int) -> int:
    """Store the trajectories in bytes `begin` to `end` of the output; returns the position stored up to.

    It isn't `end` if they were stored already: the database committed them, but the connection broke before it confirmed. Meanwhile
    the output has grown, so the caller continues from the returned position. Raises Superseded.
    """
    lifecycle.renew(batch)  # its row is now locked, so nobody else changes the position
    stored = RolloutBatch.objects.values_list("position", flat=True).get(pk=batch.pk)
    if stored != begin:
        return stored
    lifecycle.record_progress(
        batch,
        position=end,
        finished=F("finished") + len(prepared),
        succeeded=F("succeeded") + sum(bool(trajectory.columns["success"]) for trajectory in prepared),
    )
    copy_in(
        prepared,
        Origin(batch.workspace_id, "rollout", rollout_batch_id=batch.pk, policy_id=batch.policy_id),
    )
    return end
