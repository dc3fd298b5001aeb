"""The steps of runs as stored bytes, streamed: a run is in memory only while its row is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from psycopg.abc import Buffer
from psycopg.adapt import Loader

# The lateral join walks the primary key run by run, so nothing is sorted and nothing is held. Its order follows the array's;
# `read` checks that rather than sorting hundreds of megabytes on the server.
STEPS = """
SELECT run.place, step.context, step.message
FROM unnest(%s::uuid[]) WITH ORDINALITY AS run (id, place)
CROSS JOIN LATERAL (
    SELECT context, message FROM trajectories_step WHERE trajectory_id = run.id ORDER BY index
) AS step
"""
ROWS_AT_ONCE = 64


class RawStep(NamedTuple):
    """A step's two JSON texts as Postgres keeps them."""

    context: bytes
    message: bytes


class _Bytes(Loader):
    """Hands over a json value's text undecoded: orjson reads bytes faster than psycopg makes strings."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def read(runs: Sequence[UUID]) -> Iterator[list[RawStep]]:
    """The steps of each run, in the order asked for; an empty list for a run without steps."""
    wanted, steps = 1, list[RawStep]()
    with connection.cursor() as cursor:
        raw: Any = cursor.cursor
        raw.adapters.register_loader("json", _Bytes)
        for place, context, message in raw.stream(STEPS, [list(runs)], size=ROWS_AT_ONCE):
            if place < wanted:
                raise RuntimeError("Postgres answered the runs out of order; the query plan is not the expected one.")
            while wanted < place:
                yield steps
                wanted, steps = wanted + 1, []
            steps.append(RawStep(context, message))
    for _ in range(wanted, len(runs) + 1):
        yield steps
        steps = []


def tools_of(runs: Sequence[UUID]) -> dict[UUID, bytes]:
    """The JSON text of the tools that each run was offered."""
    with connection.cursor() as cursor:
        raw: Any = cursor.cursor
        raw.adapters.register_loader("json", _Bytes)
        raw.execute("SELECT id, tools FROM trajectories_trajectory WHERE id = ANY(%s)", [list(runs)])
        return dict(raw.fetchall())
