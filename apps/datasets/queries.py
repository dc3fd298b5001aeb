"""Queries shared by pages and API."""

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

DATASET_COLUMNS = (by_name("Name", "name"), by_age("Created"))
SAMPLE_BYTES = 4 * 1024 * 1024
"""How much of a file is searched for samples, since a row may be huge."""


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
    """Queues with at least one valid judgment, newest first."""
    valid = (kind.valid_judgments.filter(queue=OuterRef("pk")) for kind in KINDS.values())
    judged = reduce(or_, (Q(Exists(judgments)) for judgments in valid))
    return Queue.objects.visible_to(member).filter(judged).order_by("-pk")


def judging_annotators(member: Membership) -> QuerySet[Annotator]:
    """Annotators who judged anything in the workspace."""
    judgments_by_kind = (kind.model.objects.filter(annotator=OuterRef("pk")) for kind in KINDS.values())
    judged = reduce(or_, (Q(Exists(judgments)) for judgments in judgments_by_kind))
    return Annotator.objects.visible_to(member).filter(judged).order_by("kind", "name")


class Frozen(NamedTuple):
    """The newest version that contains a queue's judgments."""

    version: Version
    next_number: int | None
    """Number of the version that would contain the judgments and decisions made since; None if there are none."""


def frozen_of(queue: Queue, member: Membership) -> Frozen | None:
    """How far the judgments of `queue` have been frozen. None if no version contains them, or this member may see none."""
    versions = Version.objects.visible_to(member).exclude(state=Version.State.FAILED).select_related("dataset")
    having = versions.filter(recipe__queues__contains=[str(queue.pk)]).defer("card", "files")
    newest = having.order_by("-pk").first()
    if newest is None:
        return None
    # A withdrawn judgment is judged again, so the newest creation times cover withdrawals, too.
    latest = [
        Subquery(rows.filter(queue=OuterRef("pk")).order_by("-pk").values("created_at")[:1])
        for rows in (kind_of(queue).model.objects.all(), Adjudication.objects.all())
    ]
    until = datetime.fromisoformat(newest.recipe["until"])
    latest_changes = Queue.objects.filter(pk=queue.pk).values_list(*latest).get()
    is_behind = any(at is not None and at > until for at in latest_changes)
    return Frozen(newest, next_number(newest.dataset) if is_behind else None)


def next_number(dataset: Dataset) -> int:
    """The number of the version that would be frozen next."""
    latest = dataset.versions.order_by("-number").values_list("number", flat=True).first()
    return (latest or 0) + 1


class SampleRow(NamedTuple):
    """A row as shown on a page."""

    number: int
    row: dict[str, Any]


def sample_rows(version: Version, split: str, *, start: int, count: int) -> list[SampleRow]:
    """Up to `count` rows of a split from row `start` on, limited to the first megabytes of its file."""
    samples: list[SampleRow] = []
    size = 0
    with default_storage.open(version.files["jsonl"][split]["name"], "rb") as file:
        for number, line in enumerate(file):
            size += len(line)
            if number >= start:
                samples.append(SampleRow(number, json.loads(line)))
            if len(samples) == count or size > SAMPLE_BYTES:
                break
    return samples
