"""Asking for a version, building it in the background, and making it final."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from time import monotonic
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Max
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import Membership
from apps.annotation.models import Queue
from apps.common import disk
from apps.common.commits import unawaited
from apps.datasets import live
from apps.datasets.build import Builder, Built
from apps.datasets.card import make_card
from apps.datasets.files.splitfiles import content_hash
from apps.datasets.files.storage import discard, store
from apps.datasets.jobs import VERSIONS
from apps.datasets.models import Dataset, Split, Version
from apps.datasets.recipe import BadRecipe, Recipe, check_kinds
from apps.datasets.selection.pairs import items_left_out
from apps.datasets.selection.survey import leaves_rows
from apps.jobs import lifecycle
from apps.jobs.models import Failure, Superseded, lease

RENEW_AFTER_SECONDS = 1.0


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
    audit.record(workspace=by.workspace, actor=by.user, action="made dataset", subject=name, about=dataset)
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
        raise NothingToFreeze("These rules leave no rows. Choose other queues, wait for judgments, or relax the rules.")
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
    audit.record(
        workspace=dataset.workspace,
        actor=by.user,
        action="asked for version",
        subject=f"{dataset.name} v{version.number}",
        about=version,
        **version.recipe,
    )
    lifecycle.queue(version)
    return version


def freeze(version_id: UUID) -> bool:
    """Build a version and make it final. False where there is nothing to do: it is final, failed, or in another worker's hands."""
    version = lifecycle.claim(VERSIONS, version_id)
    if version is None:
        return False
    folder = _fresh_folder(version)
    try:
        try:
            built = Builder(version, folder, progress=_Progress(version)).build()
            _finish(version, built)
        except (BadRecipe, NothingToFreeze, OSError) as error:
            lifecycle.fail(version, Failure("data", disk.FULL if disk.says_full(error) else str(error)))
    except Superseded:
        discard(version, [version.attempt])
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True


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
            lifecycle.write(self.version, rows_done=done, rows_expected=expected, leased_until=now() + lease())
        live.version_changed(self.version.pk)


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
    with lifecycle.kept(version):
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
