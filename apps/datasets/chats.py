"""The steps of runs as stored bytes, streamed: a few runs are in memory while their rows are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from django.db import connection
from psycopg.abc import Buffer
from psycopg.adapt import Loader

# The lateral join walks the primary key run by run, so nothing is sorted and one run is held at a time. Its order follows the array's;
# `read` checks that rather than sorting hundreds of megabytes on the server.
STEPS = """
SELECT run.place, step.texts
FROM unnest(%s::uuid[]) WITH ORDINALITY AS run (id, place)
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(context, message) ORDER BY index) AS texts FROM trajectories_step WHERE trajectory_id = run.id
) AS step
"""
RUNS_AT_ONCE = 4
"""Received together: a run with all that was observed may be large."""


class _Bytes(Loader):
    """Hands over a json value's text undecoded: orjson reads bytes faster than psycopg makes strings."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def read(runs: Sequence[UUID]) -> Iterator[bytes]:
    """The steps of each run, in the order asked for: the JSON text of a list of [context, message], as they were kept."""
    with connection.cursor() as cursor:
        raw: Any = cursor.cursor
        raw.adapters.register_loader("json", _Bytes)
        for wanted, (place, texts) in enumerate(raw.stream(STEPS, [list(runs)], size=RUNS_AT_ONCE), start=1):
            if place != wanted:
                raise RuntimeError("Postgres answered the runs out of order; the query plan is not the expected one.")
            yield texts or b"[]"


def tools_of(runs: Sequence[UUID]) -> dict[UUID, bytes]:
    """The JSON text of the tools that each run was offered."""
    with connection.cursor() as cursor:
        raw: Any = cursor.cursor
        raw.adapters.register_loader("json", _Bytes)
        raw.execute("SELECT id, tools FROM trajectories_trajectory WHERE id = ANY(%s)", [list(runs)])
        return dict(raw.fetchall())
