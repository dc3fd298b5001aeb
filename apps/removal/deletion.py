"""Deletes things of each kind with everything that belongs to them, each in one transaction, unless something depends on them.

Rows are locked before the search for dependents. A foreign key written concurrently waits for that lock, or is refused when its own
transaction ends. Writers of references without a foreign key (a version's recipe, an experiment on recorded trajectories) lock the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Workspace
from apps.annotation.models import (
    Adjudication,
    Assignment,
    Comment,
    Continuation,
    Guideline,
    Inspection,
    Item,
    Preference,
    Queue,
    Rating,
    Remark,
)
from apps.datasets.files.storage import discard
from apps.datasets.models import Dataset, Version, VersionJudgment, VersionPreference
from apps.gateway.models import Call, Feedback, Path, Session
from apps.removal import blockers, dependents
from apps.removal.blockers import MAX_BLOCKERS, NEVER, Blocker
from apps.removal.models import Removal
from apps.traces.models import Source, Span, Trace, TracePart
from apps.trajectories.models import ImportBatch, Original, Step, Task, Trajectory

MAX_AT_ONCE = 50_000
"""Maximum number of a task's trajectories that one transaction deletes."""

WORDS: dict[type[Model], str] = {
    Trajectory: "trajectories",
    Step: "steps",
    Original: "original records",
    Comment: "comments",
    Continuation: "sampled continuations",
    Session: "recorded sessions",
    Call: "recorded calls",
    Feedback: "users' feedback",
    Task: "tasks",
    Queue: "queues",
    Item: "items",
    Preference: "judgments",
    Inspection: "judgments",
    Rating: "judgments",
    Adjudication: "decisions",
    Remark: "remarks",
    Assignment: "assignments",
    Guideline: "versions of guidelines",
    Dataset: "datasets",
    Version: "failed versions",
    Trace: "traces' spans",
}
"""What is reported; everything else that is deleted belongs to one of these."""


class StillNeeded(Exception):
    """Something depends on the target. `blockers` lists what."""

    def __init__(self, blockers: Sequence[Blocker]) -> None:
        self.blockers = list(blockers[:MAX_BLOCKERS])
        self.has_more = len(blockers) > MAX_BLOCKERS
        more = "; and more" if self.has_more else ""
        super().__init__(f"It can't be deleted: {'; '.join(blocker.words for blocker in self.blockers)}{more}.")


class TooMany(Exception):
    """There's more to delete than fits into one transaction."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"This task has {count:,} trajectories; {MAX_AT_ONCE:,} at most are deleted with it. Delete some of them first."
        )


class Outlook(NamedTuple):
    """What a deletion would remove, and what prevents it."""

    title: str
    goes: dict[str, int]
    """Description -> number of things that would be removed."""
    blockers: list[Blocker]
    """What prevents the deletion; nothing is removed then."""
    has_more: bool
    emptied: int
    """How many trajectories would stay without their original records, because those hold the spans of a trace that would go."""


MODELS: dict[str, type[Any]] = {
    Removal.Thing.TRAJECTORY: Trajectory,
    Removal.Thing.TASK: Task,
    Removal.Thing.QUEUE: Queue,
    Removal.Thing.DATASET: Dataset,
    Removal.Thing.VERSION: Version,
}


def target_of(thing: str, target: UUID, workspace: Workspace) -> Any:
    """The target; None if it doesn't exist in this workspace."""
    rows = MODELS[thing].objects.filter(workspace=workspace, pk=target)
    if thing == Removal.Thing.TRAJECTORY:
        rows = rows.select_related("task").defer("tools", "closing", "info")
    return (rows.select_related("dataset") if thing == Removal.Thing.VERSION else rows).first()


def title_of(target: Any) -> str:
    """The target's display name."""
    return str(target.task if isinstance(target, Trajectory) else target)[:200]


def page_of(target: Any) -> str:
    """The target's page."""
    match target:
        case Trajectory():
            return reverse("trajectories:detail", args=[target.pk])
        case Task():
            return reverse("trajectories:task", args=[target.pk])
        case Queue():
            return reverse("annotation:queue", args=[target.pk])
        case Version():
            return reverse("datasets:version", args=[target.dataset_id, target.number])
        case _:
            return reverse("datasets:dataset", args=[target.pk])


OF_FAILED_VERSIONS: frozenset[type[Model]] = frozenset({VersionPreference, VersionJudgment})
"""What doesn't rule out a deletion that nothing blocks: then only failed versions refer to the judgments, and those references are deleted first."""

LISTS: dict[str, str] = {
    Removal.Thing.TRAJECTORY: "trajectories:list",
    Removal.Thing.TASK: "trajectories:tasks",
    Removal.Thing.QUEUE: "annotation:queues",
    Removal.Thing.DATASET: "datasets:list",
    Removal.Thing.VERSION: "datasets:list",
    Removal.Thing.EXPIRED: "removal:rules",
}
"""The list page for each kind of target."""


def outlook(target: Any) -> Outlook:
    """Counts of what would be removed, and what depends on it. Nothing is locked, so it may change before the deletion."""
    blocking = _blockers_of(target)
    rows = type(target)._base_manager.filter(pk=target.pk)
    counts: dict[type[Model], int] = {}
    emptied = 0
    if not blocking:
        try:
            counts = dependents.count(rows, spared=_spared_models(target) - OF_FAILED_VERSIONS)
        except dependents.Rests:  # it was added after the blockers were read
            blocking = _blockers_of(target)
            if not blocking:
                raise
        if isinstance(target, Trajectory | Task):
            ids = _ids(target)
            counts |= dependents.count(_sessions_left_alone(ids), spared=NEVER)
            trace_ids = list(_traces_of(ids).values_list("pk", flat=True))
            emptied = _other_originals(trace_ids, ids).count()
            counts = _with_traces(counts, trace_ids, emptied)
    has_more = len(blocking) > MAX_BLOCKERS
    return Outlook(title_of(target), counts_by_name(counts), blocking[:MAX_BLOCKERS], has_more, emptied)


def counts_by_name(counts: dict[type[Model], int]) -> dict[str, int]:
    """The counts with the models' display names."""
    by_name: Counter[str] = Counter()
    for model, number in counts.items():
        if model in WORDS:
            by_name[WORDS[model]] += number
    return dict(by_name)


@transaction.atomic
def delete(target: Any) -> dict[str, int]:
    """Delete the target with everything that belongs to it; returns the counts. Raises StillNeeded, TooMany, dependents.Rests."""
    match target:
        case Trajectory():
            counts = delete_trajectories([target.pk])
        case Task():
            counts = _delete_task(target)
        case Queue():
            counts = _delete_queue(target)
        case Version():
            counts = _delete_version(target)
        case _:
            counts = _delete_dataset(target)
    return counts_by_name(counts)


def delete_trajectories(ids: Collection[UUID]) -> dict[type[Model], int]:
    """Delete these trajectories in the caller's transaction, with their sources unless something else needs those. Raises StillNeeded."""
    ids = list(ids)
    # Lock in the order used by writers: a trace or a session, then its trajectories.
    locked_traces = _traces_of(ids).select_for_update().order_by("pk").values_list("pk")
    trace_ids = [pk for (pk,) in locked_traces]
    sessions = Session.objects.filter(paths__trajectory__in=ids)
    of_sessions = Session.objects.filter(pk__in=sessions.values("pk")).select_for_update().order_by("pk")
    session_ids = [pk for (pk,) in of_sessions.values_list("pk")]
    list(Trajectory.objects.filter(pk__in=ids).select_for_update().order_by("pk").values_list("pk"))
    if blocking := blockers.on_trajectories(ids):
        raise StillNeeded(blocking)
    runs = Trajectory.objects.filter(pk__in=ids)
    imports = list(runs.exclude(import_batch=None).order_by().values_list("import_batch", flat=True).distinct())
    emptied, _ = _other_originals(trace_ids, ids).delete()
    counts = _with_traces(dependents.delete(runs, spared=NEVER), trace_ids, emptied)
    # Late spans would bring back what was deleted, and the spans' own content would remain.
    for model in (Span, Source):
        model.objects.filter(trace__in=trace_ids).delete()
    Trace.objects.filter(pk__in=trace_ids).update(closed_at=now(), due_at=None)
    alone = Session.objects.filter(pk__in=session_ids).exclude(Exists(Path.objects.filter(session=OuterRef("pk"))))
    alone_ids = list(alone.values_list("pk", flat=True))  # read at once, as in _sessions_left_alone
    counts |= dependents.delete(Session.objects.filter(pk__in=alone_ids), spared=NEVER)
    _forget_files(imports)
    return counts


def _forget_files(batches: Sequence[UUID]) -> None:
    """Delete the uploads of imports without remaining trajectories, and the quotes in their rejected rows. The same file can be imported again."""
    remaining = Trajectory.objects.filter(import_batch=OuterRef("pk"))
    for batch in ImportBatch.objects.filter(~Exists(remaining), pk__in=batches):
        batch.rejected_rows.all().delete()
        if not batch.file:  # imported with its workspace
            continue
        _delete_afterward(str(batch.file.name))
        ImportBatch.objects.filter(pk=batch.pk).update(file="")


def _delete_afterward(name: str) -> None:
    # Not a partial: Django logs the name of a callback that fails after a commit. A partial has none, so later callbacks would be skipped.
    transaction.on_commit(lambda: default_storage.delete(name), robust=True)


def _discard_afterward(version: Version) -> None:
    transaction.on_commit(lambda: discard(version, range(1, version.attempt + 1)), robust=True)


def _ids(target: Trajectory | Task) -> list[UUID]:
    if isinstance(target, Trajectory):
        return [target.pk]
    return list(Trajectory.objects.filter(task=target).values_list("pk", flat=True)[: MAX_AT_ONCE + 1])


def _traces_of(ids: Collection[UUID]) -> QuerySet[Trace]:
    return Trace.objects.filter(pk__in=TracePart.objects.filter(trajectory__in=ids).values("trace"))


def _other_originals(trace_ids: Collection[UUID], ids: Collection[UUID]) -> QuerySet[Original]:
    """The original records of the traces' trajectories other than these, which stay: each record holds all spans of its trace."""
    return Original.objects.filter(trajectory__trace_part__trace__in=trace_ids).exclude(trajectory__in=ids)


def _with_traces(counts: dict[type[Model], int], trace_ids: Collection[UUID], emptied: int) -> dict[type[Model], int]:
    """The counts of trajectories and what belongs to them, with their traces' spans and the original records that those take along."""
    originals = counts.get(Original, 0) + emptied
    return counts | {model: number for model, number in ((Original, originals), (Trace, len(trace_ids))) if number}


def _sessions_left_alone(ids: Collection[UUID]) -> Any:
    """Sessions whose trajectories are all among these."""
    other_paths = Path.objects.filter(session=OuterRef("pk")).exclude(trajectory__in=ids)
    within = Path.objects.filter(trajectory__in=ids).values("session")
    session_ids = Session.objects.filter(~Exists(other_paths), pk__in=within).values_list("pk", flat=True)
    # Read at once: as a subquery of every table that refers to sessions, it could be planned so that it runs for each call.
    return Session.objects.filter(pk__in=list(session_ids))


def _blockers_of(target: Any) -> list[Blocker]:
    match target:
        case Trajectory():
            return blockers.on_trajectories([target.pk])
        case Task():
            return blockers.on_task(target, _ids(target))
        case Queue():
            return blockers.on_queue(target)
        case Version():
            return blockers.on_version(target)
        case _:
            return blockers.on_dataset(target)


def _spared_models(target: Any) -> frozenset[type[Model]]:
    if isinstance(target, Queue):
        return NEVER - {Item}
    return NEVER - {Version, VersionPreference, VersionJudgment} if isinstance(target, Version | Dataset) else NEVER


def _delete_task(task: Task) -> dict[type[Model], int]:
    list(Task.objects.select_for_update().filter(pk=task.pk).values_list("pk"))  # blocks new trajectories
    ids = _ids(task)
    if len(ids) > MAX_AT_ONCE:
        raise TooMany(Trajectory.objects.filter(task=task).count())
    if blocking := blockers.on_task(task, ids):
        raise StillNeeded(blocking)
    counts = delete_trajectories(ids)
    _forget_failed(Q(task=task), Q(task=task))
    return counts | dependents.delete(Task.objects.filter(pk=task.pk), spared=NEVER | {Trajectory})


def _delete_queue(queue: Queue) -> dict[type[Model], int]:
    locked = Queue.objects.select_for_update().get(pk=queue.pk)  # requesting a version locks it, too
    if blocking := blockers.on_queue(locked):
        raise StillNeeded(blocking)
    _forget_failed(Q(preference__queue=queue), Q(inspection__queue=queue) | Q(rating__queue=queue))
    return dependents.delete(Queue.objects.filter(pk=queue.pk), spared=_spared_models(queue))


def _forget_failed(pairs: Q, judgments: Q) -> None:
    """Delete the row references that failed attempts at versions recorded."""
    failed = Q(version__state=Version.State.FAILED)
    VersionPreference.objects.filter(failed & pairs).delete()
    VersionJudgment.objects.filter(failed & judgments).delete()


def _delete_version(version: Version) -> dict[type[Model], int]:
    locked = Version.objects.select_for_update(of=("self",)).select_related("dataset").get(pk=version.pk)
    if blocking := blockers.on_version(locked):
        raise StillNeeded(blocking)
    _discard_afterward(locked)
    return dependents.delete(Version.objects.filter(pk=version.pk), spared=_spared_models(version))


def _delete_dataset(dataset: Dataset) -> dict[type[Model], int]:
    Dataset.objects.select_for_update().get(pk=dataset.pk)  # requesting a version locks it, too
    if blocking := blockers.on_dataset(dataset):
        raise StillNeeded(blocking)
    for version in Version.objects.filter(dataset=dataset).select_related("dataset"):
        _discard_afterward(version)
    return dependents.delete(Dataset.objects.filter(pk=dataset.pk), spared=_spared_models(dataset))
