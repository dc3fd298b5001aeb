"""Batches of rollouts as jobs: what the engine must know of them."""

from django.db import transaction
from django.urls import reverse

from apps.common.broker import enqueue
from apps.jobs.kinds import Event, Kind, register
from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts import live_episodes

TASK = "rollouts.run"


def _tell(batch: RolloutBatch, event: Event) -> None:
    if event.kind in ("finished", "failed"):
        enqueue("experiments.advance_all")  # some experiment may wait for just this batch
    if event.kind == "cancelling":
        transaction.on_commit(lambda: live_episodes.end_all(batch.pk), robust=True)


ROLLOUTS = register(
    Kind(
        name="rollouts",
        noun="batch of rollouts",
        label="Rollouts",
        model=RolloutBatch,
        task=lambda batch: TASK,
        title=lambda batch: f"{batch.policy.name} in {batch.environment}",
        url=lambda batch: reverse("training:rollouts", args=[batch.pk]),
        on_event=_tell,
        related=("policy__endpoint", "workspace"),
        listed_with=("policy",),
        is_cancellable=True,
        is_resumable=True,
    )
)
