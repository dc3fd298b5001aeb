"""Recent activity anywhere in the loop, newest first."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import cast

from django.template.defaultfilters import pluralize
from django.urls import reverse

from apps.accounts.models import Membership
from apps.annotation.models import Queue
from apps.arena.models import Experiment
from apps.common.quantities import count
from apps.datasets.models import Version
from apps.jobs.models import JobState
from apps.policies.models import Promotion
from apps.training.models import Run
from apps.trajectories.models import ImportBatch

EACH = 5
SHOWN = 8


@dataclass(frozen=True)
class Move:
    """Something that started or ended, as a sentence."""

    at: datetime
    icon: str
    sentence: str
    url: str


def moves(member: Membership) -> list[Move]:
    """The latest events of all kinds, merged by time. The queries leave out rows without a time; the casts below tell mypy so."""
    all_moves = chain(
        _imports(member), _queues(member), _versions(member), _runs(member), _promotions(member), _experiments(member)
    )
    return sorted(all_moves, key=lambda move: move.at, reverse=True)[:SHOWN]


def _imports(member: Membership) -> Iterator[Move]:
    done = ImportBatch.objects.visible_to(member).filter(state=JobState.DONE, finished_at__isnull=False)
    for batch in done.order_by("-finished_at")[:EACH]:
        sentence = f"{batch.filename}: {count(batch.trajectory_count)} trajector{pluralize(batch.trajectory_count, 'y,ies')} imported"
        yield Move(
            cast("datetime", batch.finished_at), "import", sentence, reverse("trajectories:import", args=[batch.pk])
        )


def _queues(member: Membership) -> Iterator[Move]:
    for queue in Queue.objects.visible_to(member).open().order_by("-pk")[:EACH]:
        sentence = f"Queue “{queue}” opened with {count(queue.item_count)} item{pluralize(queue.item_count)}"
        yield Move(queue.created_at, "queue", sentence, reverse("annotation:queue", args=[queue.pk]))


def _versions(member: Membership) -> Iterator[Move]:
    for version in Version.objects.visible_to(member).frozen().select_related("dataset").order_by("-frozen_at")[:EACH]:
        rows = sum(version.row_counts.values())
        sentence = f"{version} frozen with {count(rows)} row{pluralize(rows)}"
        yield Move(
            cast("datetime", version.frozen_at),
            "freeze",
            sentence,
            reverse("datasets:version", args=[version.dataset_id, version.number]),
        )


def _runs(member: Membership) -> Iterator[Move]:
    ended = Run.objects.visible_to(member).filter(finished_at__isnull=False)
    for run in ended.order_by("-finished_at")[:EACH]:
        sentence = f"Training run “{run}” {run.get_state_display().lower()}"
        yield Move(cast("datetime", run.finished_at), "run", sentence, reverse("training:run", args=[run.pk]))


def _promotions(member: Membership) -> Iterator[Move]:
    for promotion in Promotion.objects.visible_to(member).select_related("policy").order_by("-pk")[:EACH]:
        verb = "is champion again" if promotion.is_rollback else "became champion"
        sentence = f"{promotion.policy} {verb} of {promotion.environment}"
        yield Move(promotion.created_at, "crown", sentence, reverse("policies:policy", args=[promotion.policy_id]))


def _experiments(member: Membership) -> Iterator[Move]:
    ended = Experiment.objects.visible_to(member).filter(stopped_at__isnull=False)
    for experiment in ended.order_by("-stopped_at")[:EACH]:
        sentence = f"Experiment “{experiment}” ended"
        yield Move(
            cast("datetime", experiment.stopped_at),
            "experiment",
            sentence,
            reverse("arena:experiment", args=[experiment.pk]),
        )
