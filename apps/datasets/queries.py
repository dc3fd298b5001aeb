"""Reads shared by pages and API."""

from __future__ import annotations

import json
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from django.core.files.storage import default_storage
from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet, Subquery

from apps.accounts.models import Membership
from apps.annotation.kinds import KINDS, kind_of
from apps.annotation.models import Adjudication, Annotator, Queue
from apps.common.sorting import by_age, by_name
from apps.datasets.models import Dataset, Version

DATASET_COLUMNS = (by_name("Name", "name"), by_age("Made"))
SAMPLE_BYTES = 4 * 1024 * 1024
"""How far into a file samples are looked for: a row may be huge."""


def datasets_for_list(member: Membership) -> QuerySet[Dataset]:
    """Datasets with their number of versions and the latest frozen one's number."""
    return (
        Dataset.objects.visible_to(member)
        .select_related("created_by")
        .annotate(
            version_count=Count("versions"),
            latest=Max("versions__number", filter=Q(versions__state=Version.State.FROZEN)),
        )
    )


def freezable_queues(member: Membership) -> QuerySet[Queue]:
    """Queues with at least one standing judgment, newest first."""
    standing = (kind.standing.filter(queue=OuterRef("pk")) for kind in KINDS.values())
    judged = reduce(or_, (Q(Exists(judgements)) for judgements in standing))
    return Queue.objects.visible_to(member).filter(judged).order_by("-pk")


def judging_annotators(member: Membership) -> QuerySet[Annotator]:
    """Those who judged anything in the workspace."""
    given = (kind.model.objects.filter(annotator=OuterRef("pk")) for kind in KINDS.values())
    judged = reduce(or_, (Q(Exists(judgements)) for judgements in given))
    return Annotator.objects.visible_to(member).filter(judged).order_by("kind", "name")


class Frozen(NamedTuple):
    """The newest version that a queue's judgments went into."""

    version: Version
    next_number: int | None
    """Of the version that would have what was judged or decided since; None where nothing was."""


def frozen_of(queue: Queue, member: Membership) -> Frozen | None:
    """How far the judgments of `queue` are frozen. None where no version has them, or this member sees none."""
    versions = Version.objects.visible_to(member).exclude(state=Version.State.FAILED).select_related("dataset")
    having = versions.filter(recipe__queues__contains=[str(queue.pk)]).defer("card", "files")
    newest = having.order_by("-pk").first()
    if newest is None:
        return None
    # What is taken back is judged anew, so the newest of what came tells of that as well.
    latest = [
        Subquery(rows.filter(queue=OuterRef("pk")).order_by("-pk").values("created_at")[:1])
        for rows in (kind_of(queue).model.objects.all(), Adjudication.objects.all())
    ]
    until = datetime.fromisoformat(newest.recipe["until"])
    said = Queue.objects.filter(pk=queue.pk).values_list(*latest).get()
    is_behind = any(at is not None and at > until for at in said)
    return Frozen(newest, next_number(newest.dataset) if is_behind else None)


def next_number(dataset: Dataset) -> int:
    """Of the version that would be frozen next."""
    latest = dataset.versions.order_by("-number").values_list("number", flat=True).first()
    return (latest or 0) + 1


class SampleRow(NamedTuple):
    """A row as a page shows it."""

    number: int
    row: dict[str, Any]


def sample_rows(version: Version, split: str, *, start: int, count: int) -> list[SampleRow]:
    """Up to `count` rows of a split from row `start` on, as far as the first megabytes of its file reach."""
    found: list[SampleRow] = []
    read = 0
    with default_storage.open(version.files["jsonl"][split]["name"], "rb") as file:
        for number, line in enumerate(file):
            read += len(line)
            if number >= start:
                found.append(SampleRow(number, json.loads(line)))
            if len(found) == count or read > SAMPLE_BYTES:
                break
    return found
