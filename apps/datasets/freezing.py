"""Requesting a version, building it in the background, and making it final.

Building streams from the database and holds one row at a time in memory.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Max
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import Membership
from apps.annotation.models import Queue
from apps.common import disk
from apps.common.commits import unawaited
from apps.datasets import live
from apps.datasets.card import make_card
from apps.datasets.figures import Figures
from apps.datasets.files.splitfiles import FileInfo, Room, SplitFiles, TooLarge, content_hash
from apps.datasets.files.storage import discard, store
from apps.datasets.models import Dataset, Split, Version, VersionJudgment, VersionPreference
from apps.datasets.recipe import BadRecipe, Recipe, check_kinds
from apps.datasets.rows.materials import Files, Materials, Source
from apps.datasets.rows.pairs import PairRows
from apps.datasets.rows.single_trajectories import TrajectoryRows
from apps.datasets.selection import splits
from apps.datasets.selection.pairs import items_left_out
from apps.datasets.selection.survey import can_have_rows, survey
from apps.jobs import lifecycle
from apps.jobs.models import Event, Failure, Kind, Phase, Superseded, lease, register
from apps.webhooks.events import EventType

TASK = "freezing.freeze"
log = logging.getLogger(__name__)


def _announce(version: Version, event: Event) -> None:
    """Update the open pages, and delete the files of unsuccessful attempts."""
    if event.kind in ("finished", "failed"):
        discard(version, range(1, version.attempt + (event.kind == "failed")))
    transaction.on_commit(lambda: live.version_changed(version.pk), robust=True)


VERSIONS = register(
    Kind(
        name="versions",
        noun="version",
        label="Dataset version",
        model=Version,
        task=lambda version: TASK,
        title=str,
        url=lambda version: reverse("datasets:version", args=[version.dataset_id, version.number]),
        on_event=_announce,
        webhook_events={Phase.DONE: EventType.VERSION_FROZEN, Phase.FAILED: EventType.VERSION_FAILED},
        webhook_data=lambda version: {"dataset": str(version.dataset_id), "number": version.number},
        related=("dataset", "workspace"),
        lane="versions",
        listed_with=("dataset",),
    )
)


RENEW_AFTER_SECONDS = 1.0
NO_ROWS = "These rules leave no rows. Choose other queues, wait for judgments, or relax the rules."


class NothingToFreeze(ValueError):
    """The recipe matches no rows."""


class NameTaken(ValueError):
    """The workspace already has a dataset of that name."""


@transaction.atomic
def create_dataset(*, name: str, description: str, license: str, by: Membership) -> Dataset:
    """A named, empty series of versions. Raises NameTaken."""
    try:
        with transaction.atomic():
            dataset = Dataset.objects.create(
                workspace=by.workspace, name=name, description=description, license=license, created_by=by.user
            )
    except IntegrityError:
        raise NameTaken(
            f"There is a dataset called {name} already. Choose another name, or freeze a version of that one."
        ) from None
    audit.record(workspace=by.workspace, actor=by.user, action="made dataset", subject=name, target=dataset)
    return dataset


@transaction.atomic
def request_version(*, dataset: Dataset, recipe: Recipe, by: Membership) -> Version:
    """Create the next version of a dataset and have a worker build it. Raises BadRecipe and NothingToFreeze.

    The recipe's cutoff time is set here, to the present at the latest, so judgments made while the version is built go into the next one.
    The flagged items that it leaves out are fixed here, too.
    """
    recipe = replace(recipe, without_items=items_left_out(recipe))
    recipe = replace(recipe, until=min(recipe.until or now(), now()))
    queues = Queue.objects.visible_to(by).filter(pk__in=recipe.queues).order_by("pk")
    # Locked so that a concurrent deletion of a queue waits for this version and sees it.
    kinds = list(queues.select_for_update(of=("self",), no_key=True).values_list("kind", flat=True))
    if len(kinds) != len(recipe.queues):
        raise BadRecipe(
            "queues", f"{len(recipe.queues) - len(kinds)} of {len(recipe.queues)} queues aren't in this workspace."
        )
    check_kinds(recipe, kinds)
    if not can_have_rows(recipe, dataset.workspace):
        raise NothingToFreeze(NO_ROWS)
    # Locked so that concurrent requests get different numbers.
    if not list(Dataset.objects.select_for_update().filter(pk=dataset.pk).values_list("pk")):
        raise NothingToFreeze("The dataset was deleted meanwhile.")
    latest = dataset.versions.aggregate(latest=Max("number"))["latest"] or 0
    version = Version.objects.create(
        workspace=dataset.workspace,
        dataset=dataset,
        number=latest + 1,
        row_type=recipe.row_type,
        recipe=recipe.to_json(),
        created_by=by.user,
    )
    audit.record(
        workspace=dataset.workspace,
        actor=by.user,
        action="asked for version",
        subject=f"{dataset.name} v{version.number}",
        target=version,
        **version.recipe,
    )
    lifecycle.queue(version)
    return version


def freeze(version_id: UUID) -> bool:
    """Build a version and make it final. False if there's nothing to do: it's final, failed, or held by another worker."""
    version = lifecycle.claim(VERSIONS, version_id)
    if version is None:
        return False
    folder = _fresh_folder(version)
    try:
        try:
            built = Builder(version, folder, progress=_Progress(version)).build()
            _finish(version, built)
        except (BadRecipe, NothingToFreeze, TooLarge) as error:
            lifecycle.fail(version, Failure("data", str(error)))
        except OSError as error:
            log.exception("%s couldn't be stored", version)
            reason = f"The version's files couldn't be stored: {disk.words_of(error)}."
            lifecycle.fail(version, Failure("data", disk.FULL if disk.is_out_of_space(error) else reason))
    except Superseded:
        discard(version, [version.attempt])
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True


class _Progress:
    """Renews the lease and updates the open pages, at most once a second."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.told = 0.0

    def __call__(self, done: int, expected: int) -> None:
        if done and monotonic() - self.told < RENEW_AFTER_SECONDS:
            return
        self.told = monotonic()
        with unawaited():
            lifecycle.write(self.version, rows_done=done, rows_expected=expected, leased_until=now() + lease())
        live.version_changed(self.version.pk)


def _fresh_folder(version: Version) -> Path:
    """An empty folder for this attempt; folders of killed attempts are deleted."""
    root = Path(settings.VAR) / "freezing"
    for attempt in range(1, version.attempt + 1):
        shutil.rmtree(root / f"{version.pk}-{attempt}", ignore_errors=True)
    folder = root / f"{version.pk}-{version.attempt}"
    folder.mkdir(parents=True)
    return folder


def _finish(version: Version, built: Built) -> None:
    if not built.figures.rows:
        raise NothingToFreeze("Everything was dropped when the steps were read: " + _reasons(built))
    with lifecycle.lease_kept(version):
        files = store(version, built.files)
    sums = {split: built.files[split]["jsonl"].sha256 for split in Split}
    rows = {split.value: built.figures.rows[split.value] for split in Split}
    lifecycle.finish(
        version,
        files=files,
        row_counts=rows,
        rows_done=sum(rows.values()),
        rows_expected=sum(rows.values()),
        content_hash=content_hash(sums),
        card=make_card(version, built.figures),
        frozen_at=now(),
    )


def _reasons(built: Built) -> str:
    return ", ".join(f"{reason.value} {count}" for reason, count in built.figures.dropped.most_common()) + "."


class Built(NamedTuple):
    """A version's finished files, still in the attempt's own folder, and its statistics."""

    files: dict[Split, dict[str, FileInfo]]
    figures: Figures


class Builder:
    """One pass over everything that a version's recipe selects."""

    def __init__(self, version: Version, folder: Path, *, progress: Callable[[int, int], None]) -> None:
        self.version = version
        self.folder = folder
        self.progress = progress
        self.materials = Materials(version)

    def build(self) -> Built:
        """Assign the splits, then write every row. Replaces what earlier attempts recorded. Raises NothingToFreeze."""
        with transaction.atomic():
            lifecycle.hold(self.version)
            VersionPreference.objects.filter(version=self.version).delete()
            VersionJudgment.objects.filter(version=self.version).delete()
        recipe, figures = self.materials.recipe, self.materials.figures
        sources = survey(recipe, self.version.workspace)
        if not sources.rows:
            raise NothingToFreeze(NO_ROWS)
        self.progress(0, sources.rows)
        self.materials.splits = splits.settle(
            [entry.task for entry in sources.tasks.values()],
            workspace=self.version.workspace,
            shares=recipe.shares,
            seed=recipe.seed,
        )
        with ExitStack() as stack:
            writing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writing")
            layout, room = self.materials.row_type.layout, Room(settings.VERSION_MAX_BYTES)
            files = {split: SplitFiles(self.folder, split, layout, writing, room) for split in Split}
            for writer in files.values():
                stack.callback(writer.close)
            stack.callback(writing.shutdown)  # before the files are closed
            for written in stack.enter_context(closing(self._write(files, sources.rows))):
                self._record(written)
                self.progress(sum(figures.rows.values()), sources.rows)
            return Built({split: writer.finish() for split, writer in files.items()}, figures)

    def _write(self, files: Files, expected: int) -> Generator[list[Source], None, None]:
        row_type = self.materials.row_type
        if row_type.pairs:
            yield from PairRows(self.materials, row_type.pairs).write(files, expected=expected)
        if row_type.trajectories:
            yield from TrajectoryRows(self.materials, row_type.trajectories).write(files)

    def _record(self, sources: Sequence[Source]) -> None:
        """Record which judgments went into which rows."""
        version = self.version.pk
        pairs = [(version, s.preference, s.task, s.split, s.row) for s in sources if s.preference]
        judgments = [(version, s.inspection, s.rating, s.task, s.split, s.row) for s in sources if not s.preference]
        # Only the commit that makes the version final has to reach the disk; a lost attempt starts over.
        with unawaited():
            lifecycle.hold(self.version)
            _copy("datasets_versionpreference (version_id, preference_id, task_id, split, row)", pairs)
            _copy("datasets_versionjudgment (version_id, inspection_id, rating_id, task_id, split, row)", judgments)


def _copy(destination: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if not rows:
        return
    with connection.cursor() as cursor:
        raw: Any = cursor.cursor
        with raw.copy(f"COPY {destination} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
