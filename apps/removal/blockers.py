"""What prevents something from being deleted, with names and links: above all, frozen versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Model, Q, QuerySet
from django.urls import reverse

from apps.annotation.models import Continuation, Item, Judge, Queue
from apps.arena.models import Experiment, LiveAttempt
from apps.datasets.models import Dataset, Version, VersionJudgment, VersionPreference
from apps.gateway.models import Session
from apps.training.models import Episode, Run
from apps.trajectories.models import ImportBatch, RolloutBatch, Task, Trajectory

MAX_BLOCKERS = 10
"""Maximum number of blockers to name; one more is searched for, to show that there are more."""

NEVER: frozenset[type[Model]] = frozenset(
    {Version, VersionPreference, VersionJudgment, Experiment, LiveAttempt, Run, Item, Queue, ImportBatch, RolloutBatch}
)
"""Models whose rows are deleted only if they're the target itself, or part of a queue or a version that is."""


class Blocker(NamedTuple):
    """A reason why something can't be deleted, for now or ever."""

    words: str
    url: str


def on_trajectories(ids: Collection[UUID]) -> list[Blocker]:
    """What depends on any of these trajectories of one workspace; at most MAX_BLOCKERS + 1."""
    return list(islice(_on_trajectories(ids), MAX_BLOCKERS + 1))


def _on_trajectories(ids: Collection[UUID]) -> Iterator[Blocker]:
    items = Item.objects.filter(Q(a__in=ids) | Q(b__in=ids)).order_by()
    yield from _versions(_holding("item__in", items))
    for queue in Queue.objects.filter(pk__in=items.values("queue")).order_by("pk")[: MAX_BLOCKERS + 1]:
        yield Blocker(f"queue {queue.name} has it as an item", reverse("annotation:queue", args=[queue.pk]))
    runs = Trajectory.objects.filter(pk__in=ids)
    workspaces = runs.order_by().values("workspace")
    filling = Queue.objects.filter(state=Queue.State.FILLING, workspace__in=workspaces)
    for queue in filling.order_by("pk")[: MAX_BLOCKERS + 1]:
        yield Blocker(f"queue {queue.name} is being filled", reverse("annotation:queue", args=[queue.pk]))
    live = LiveAttempt.objects.filter(trajectory__in=ids).values("experiment")
    recorded = Q(recorded_a__overlap=list(ids)) | Q(recorded_b__overlap=list(ids)) | Q(pk__in=live)
    batches = runs.exclude(rollout_batch=None).order_by().values("rollout_batch")
    experiments = Experiment.objects.filter(recorded | Q(rollouts_a__in=batches) | Q(rollouts_b__in=batches))
    for experiment in experiments.order_by("pk")[: MAX_BLOCKERS + 1]:
        address = reverse("arena:experiment", args=[experiment.pk])
        yield Blocker(f"experiment {experiment.name} compares it", address)
    imports = ImportBatch.objects.active().filter(pk__in=runs.order_by().values("import_batch"))
    for import_batch in imports.order_by("pk")[: MAX_BLOCKERS + 1]:
        address = reverse("trajectories:import", args=[import_batch.pk])
        yield Blocker(f"the import of {import_batch.filename} is in progress", address)
    for batch in RolloutBatch.objects.active().filter(pk__in=batches).order_by("pk")[: MAX_BLOCKERS + 1]:
        yield Blocker("the rollouts that it is part of are in progress", reverse("training:rollouts", args=[batch.pk]))
    sampled = Continuation.objects.active().filter(Q(trajectory__in=ids) | Q(branch__in=ids))
    for continuation in sampled.order_by("pk")[: MAX_BLOCKERS + 1]:
        address = reverse("trajectories:detail", args=[continuation.trajectory_id])
        yield Blocker("a policy is continuing it", address)
    sessions = Session.objects.filter(paths__trajectory__in=ids)
    played = Episode.objects.filter(session__in=sessions, batch__closed_at=None)
    for run in Run.objects.filter(pk__in=played.order_by().values("batch__run")).order_by("pk")[: MAX_BLOCKERS + 1]:
        yield Blocker(f"training run {run.name} is learning from it", reverse("training:run", args=[run.pk]))
    for batch in RolloutBatch.objects.filter(pk__in=played.order_by().values("batch__rollouts"))[: MAX_BLOCKERS + 1]:
        yield Blocker("the rollouts that it is part of are in progress", reverse("training:rollouts", args=[batch.pk]))


def on_task(task: Task, ids: Collection[UUID]) -> list[Blocker]:
    """What depends on a task or on one of its trajectories."""
    uses = [rows.objects.filter(task=task).values("version") for rows in (VersionPreference, VersionJudgment)]
    frozen = Version.objects.filter(Q(pk__in=uses[0]) | Q(pk__in=uses[1]))
    return _first(_versions(frozen), _on_trajectories(ids))


def on_queue(queue: Queue) -> list[Blocker]:
    """What depends on a queue, or is at work in it."""
    address = reverse("annotation:queue", args=[queue.pk])
    blockers: list[Blocker] = []
    if queue.state in (Queue.State.FILLING, Queue.State.OPEN):
        blockers.append(Blocker(f"it is {queue.get_state_display().lower()}: pause or close it first", address))
    for judge in Judge.objects.active().filter(queue=queue).select_related("annotator")[:MAX_BLOCKERS]:
        sentence = f"{judge.annotator.name} is judging it: pause that first"
        blockers.append(Blocker(sentence, reverse("annotation:judges", args=[queue.pk])))
    for experiment in Experiment.objects.filter(queue=queue):
        sentence = f"experiment {experiment.name} depends on its judgments"
        blockers.append(Blocker(sentence, reverse("arena:experiment", args=[experiment.pk])))
    versions = Version.objects.filter(workspace=queue.workspace_id, recipe__queues__contains=[str(queue.pk)])
    return _first(blockers, _versions(versions), _versions(_holding("queue", queue)))


def on_version(version: Version) -> list[Blocker]:
    """A frozen version can never be deleted, and one in progress can't be deleted now."""
    return list(_versions(Version.objects.filter(pk=version.pk)))


def on_dataset(dataset: Dataset) -> list[Blocker]:
    """The dataset's versions, except failed ones."""
    return list(_versions(Version.objects.filter(dataset=dataset)))


def _holding(field: str, value: Any) -> QuerySet[Version]:
    """Versions that contain a judgment whose `field` is `value`."""
    pairs = VersionPreference.objects.filter(**{f"preference__{field}": value})
    steps = VersionJudgment.objects.filter(**{f"inspection__{field}": value})
    ratings = VersionJudgment.objects.filter(**{f"rating__{field}": value})
    within = [Q(pk__in=rows.order_by().values("version")) for rows in (pairs, steps, ratings)]
    return Version.objects.filter(within[0] | within[1] | within[2])


def _versions(versions: QuerySet[Version]) -> Iterator[Blocker]:
    usable = versions.exclude(state=Version.State.FAILED).select_related("dataset")
    for version in usable.order_by("pk")[: MAX_BLOCKERS + 1]:
        reason = "is frozen, and can't be deleted" if version.state == Version.State.FROZEN else "is being frozen"
        address = reverse("datasets:version", args=[version.dataset_id, version.number])
        yield Blocker(f"dataset version {version} {reason}", address)


def _first(*groups: Iterable[Blocker]) -> list[Blocker]:
    """Removes duplicates: a version may contain judgments of a queue that its recipe names, too."""
    return list(islice(dict.fromkeys(blocker for group in groups for blocker in group), MAX_BLOCKERS + 1))
