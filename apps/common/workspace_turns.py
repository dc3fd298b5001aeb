"""Periodic work on the rows of all workspaces: each workspace gets a time slice, so that one with many or slow rows leaves time for the others."""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar
from uuid import UUID

from django.core.cache import cache
from django.db import OperationalError
from django.db.models import Model, QuerySet

from apps.common.query_time_limit import unless_locked

log = logging.getLogger(__name__)

REMEMBERED_SECONDS = 3600
M = TypeVar("M", bound=Model)


def in_workspace_turns(rows: QuerySet[M], *, name: str, seconds: float) -> Iterator[M]:
    """The rows of each workspace, by id, until its time slice ends; the next pass with this name continues after the last row."""
    of_workspace: dict[UUID, list[UUID]] = defaultdict(list)
    for workspace_id, pk in rows.order_by("pk").values_list("workspace", "pk"):
        of_workspace[workspace_id].append(pk)
    for workspace_id, ids in of_workspace.items():
        key = f"workspace-turn:{name}:{workspace_id}"
        begin = bisect_right(ids, cache.get(key) or ids[-1]) % len(ids)
        end = time.monotonic() + seconds
        for pk in ids[begin:] + ids[:begin]:
            yield from rows.filter(pk=pk)
            if time.monotonic() >= end:
                cache.set(key, pk, REMEMBERED_SECONDS)
                break


def do_in_workspace_turns(rows: QuerySet[M], do: Callable[[M], None], *, name: str, seconds: float) -> None:
    """Do something with each of these rows, unless it waits too long for a locked row. One that can't be done is logged, and doesn't stop the others."""
    for row in in_workspace_turns(rows, name=name, seconds=seconds):
        try:
            with unless_locked():
                do(row)
        except OperationalError:
            raise  # the database is down, or resolved a deadlock: the next pass retries it
        except Exception:
            log.exception("%s: %s %s can't be done", name, row._meta.label, row.pk)
