"""Asking for a version, building it in the background, and making it final."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import F, Max
from django.utils.timezone import now

from apps.accounts import auditing
from apps.accounts.models import Membership
from apps.annotation.models import Queue
from apps.common.broker import enqueue
from apps.common.commits import unawaited
from apps.common.leases import REMIND_AFTER, Superseded, lease
from apps.datasets import announcing
from apps.datasets.building import Builder, Built
from apps.datasets.card import make_card
from apps.datasets.files.splitfiles import content_hash
from apps.datasets.files.storing import discard, store
from apps.datasets.models import Dataset, Split, Version
from apps.datasets.recipe import BadRecipe, Recipe, check_kinds
from apps.datasets.selection.selecting import items_left_out
from apps.datasets.selection.surveying import leaves_rows

RENEW_AFTER_SECONDS = 1.0
MOST_ATTEMPTS = 5


class NothingToFreeze(ValueError):
    """The recipe leaves no row."""


class NameTaken(ValueError):
    """The workspace has a dataset of that name."""


@transaction.atomic
def create_dataset(*, name: str, description: str, licence: str, by: Membership) -> Dataset:
    """A named, empty series of versions. Raises NameTaken."""
    try:
        with transaction.atomic():
            dataset = Dataset.objects.create(
                workspace=by.workspace, name=name, description=description, licence=licence, created_by=by.user
            )
    except IntegrityError:
        raise NameTaken(
            f"There is a dataset called {name} already. Choose another name, or freeze a version of that one."
        ) from None
    auditing.record(workspace=by.workspace, actor=by.user, action="made dataset", subject=name, about=dataset)
    return dataset


@transaction.atomic
def request_version(*, dataset: Dataset, recipe: Recipe, by: Membership) -> Version:
    """Make the next version of a dataset and have a worker build it. Raises BadRecipe and NothingToFreeze.

    The recipe gets its moment here, the present at the latest: what is judged later is left to the next version, however long
    building takes. So do the flagged items that it leaves out.
    """
    recipe = replace(recipe, without_items=items_left_out(replace(recipe, until=None)))
    recipe = replace(recipe, until=min(recipe.until or now(), now()))
    kinds = list(Queue.objects.visible_to(by).filter(pk__in=recipe.queues).values_list("kind", flat=True))
    if len(kinds) != len(recipe.queues):
        raise BadRecipe(
            "queues", f"{len(recipe.queues) - len(kinds)} of {len(recipe.queues)} are in no queue of this workspace."
        )
    check_kinds(recipe, kinds)
    if not leaves_rows(recipe, dataset.workspace):
        raise NothingToFreeze(
            "These rules leave no row. Choose other queues, wait for judgements, or loosen the rules."
        )
    Dataset.objects.select_for_update().get(pk=dataset.pk)  # two requests at once get two numbers
    latest = dataset.versions.aggregate(latest=Max("number"))["latest"] or 0
    version = Version.objects.create(
        workspace=dataset.workspace,
        dataset=dataset,
        number=latest + 1,
        row_type=recipe.row_type,
        recipe=recipe.to_json(),
        created_by=by.user,
    )
    auditing.record(
        workspace=dataset.workspace,
        actor=by.user,
        action="asked for version",
        subject=f"{dataset.name} v{version.number}",
        about=version,
        **version.recipe,
    )
    queue(version)
    return version


def queue(version: Version) -> None:
    """Tell the workers about it, and remember when to tell them again should nobody answer."""
    Version.objects.filter(pk=version.pk, attempt=0).update(leased_until=now() + REMIND_AFTER)
    enqueue("freezing.freeze", str(version.pk))


def freeze(version_id: UUID) -> bool:
    """Build a version and make it final. False where there is nothing to do: it is final, failed, or in another worker's hands."""
    version = _claim(version_id)
    if version is None:
        return False
    folder = _fresh_folder(version)
    try:
        built = Builder(version, folder, progress=_Progress(version)).build()
        _finish(version, built)
    except Superseded:
        discard(version, [version.attempt])
        return False
    except (BadRecipe, NothingToFreeze, OSError) as error:
        _fail(version, str(error))
        discard(version, [version.attempt])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    announcing.version_changed(version.pk)
    discard(version, range(1, version.attempt))  # what killed attempts left
    return True


def _claim(version_id: UUID) -> Version | None:
    taken = Version.objects.abandoned().filter(pk=version_id)
    if not taken.update(leased_until=now() + lease(), attempt=F("attempt") + 1):
        return None
    version = Version.objects.select_related("dataset", "workspace").get(pk=version_id)
    if version.attempt > MOST_ATTEMPTS:
        _fail(
            version,
            f"Its worker stopped {MOST_ATTEMPTS} times while building it. Look at the worker's log, then freeze again.",
        )
        discard(version, range(1, version.attempt))
        return None
    return version


def _mine(version: Version, **values: object) -> None:
    """Update the version as the attempt that holds it. Raises Superseded."""
    held = Version.objects.filter(pk=version.pk, state=Version.State.FREEZING, attempt=version.attempt)
    if not held.update(**values):
        raise Superseded(version)


class _Progress:
    """Renews the lease and tells the watchers, at most once a second."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.told = 0.0

    def __call__(self, done: int, expected: int) -> None:
        if done and monotonic() - self.told < RENEW_AFTER_SECONDS:
            return
        self.told = monotonic()
        with unawaited():
            _mine(self.version, rows_done=done, rows_expected=expected, leased_until=now() + lease())
        announcing.version_changed(self.version.pk)


def _fresh_folder(version: Version) -> Path:
    """An empty folder for this attempt; those of killed attempts go."""
    root = Path(settings.VAR) / "freezing"
    root.mkdir(parents=True, exist_ok=True)
    for old in root.glob(f"{version.pk}-*"):
        shutil.rmtree(old, ignore_errors=True)
    folder = root / f"{version.pk}-{version.attempt}"
    folder.mkdir()
    return folder


def _finish(version: Version, built: Built) -> None:
    if not built.figures.rows:
        raise NothingToFreeze("Everything was dropped when the steps were read: " + _reasons(built))
    with _held(version):
        files = store(version, built.files)
    sums = {split: built.files[split]["jsonl"].sha256 for split in Split}
    rows = {split.value: built.figures.rows[split.value] for split in Split}
    with transaction.atomic():
        _mine(
            version,
            state=Version.State.FROZEN,
            files=files,
            row_counts=rows,
            rows_done=sum(rows.values()),
            rows_expected=sum(rows.values()),
            content_hash=content_hash(sums),
            card=make_card(version, built.figures),
            leased_until=None,
            error="",
            frozen_at=now(),
        )


@contextmanager
def _held(version: Version) -> Iterator[None]:
    """Renew the lease all the time: a storage that is slow says nothing until it has a whole file. Raises Superseded."""
    over = Event()

    def renew() -> None:
        try:
            while not over.wait(lease().total_seconds() / 4):
                _mine(version, leased_until=now() + lease())
        except Superseded:
            pass  # the write that makes the version final finds out too
        finally:
            connection.close()  # this thread's own

    _mine(version, leased_until=now() + lease())
    renewing = Thread(target=renew, name="renews-lease", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        over.set()
        renewing.join()


def _reasons(built: Built) -> str:
    return ", ".join(f"{reason.value} {count}" for reason, count in built.figures.dropped.most_common()) + "."


def _fail(version: Version, error: str) -> None:
    Version.objects.filter(pk=version.pk, state=Version.State.FREEZING, attempt=version.attempt).update(
        state=Version.State.FAILED, error=error, leased_until=None
    )
    announcing.version_changed(version.pk)
