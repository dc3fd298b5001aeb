"""Reads shared by pages and API."""

from __future__ import annotations

import json
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from django.core.files.storage import default_storage
from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet

from apps.accounts.models import Membership
from apps.annotation.models import Annotator, Inspection, Preference, Queue, Rating
from apps.datasets.models import Dataset, Version

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
    """Queues with at least one standing judgement, newest first."""
    standing = (
        kind.objects.filter(queue=OuterRef("pk"), retracted_at=None) for kind in (Preference, Inspection, Rating)
    )
    judged = reduce(or_, (Q(Exists(judgements)) for judgements in standing))
    return Queue.objects.visible_to(member).filter(judged).order_by("-pk")


def judging_annotators(member: Membership) -> QuerySet[Annotator]:
    """Those who judged anything in the workspace."""
    given = (kind.objects.filter(annotator=OuterRef("pk")) for kind in (Preference, Inspection, Rating))
    judged = reduce(or_, (Q(Exists(judgements)) for judgements in given))
    return Annotator.objects.visible_to(member).filter(judged).order_by("kind", "name")


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
