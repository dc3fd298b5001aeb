"""Runs as stored bytes, streamed: a few are in memory while their rows are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from psycopg.abc import Buffer
from psycopg.adapt import Loader

# The lateral join walks the primary key run by run, so nothing is sorted and one run is held at a time. Its order follows the array's;
# `read` checks that rather than sorting hundreds of megabytes on the server.
STEPS = """
SELECT run.place, step.texts, (SELECT tools FROM trajectories_trajectory WHERE id = run.id)
FROM unnest(%s::uuid[]) WITH ORDINALITY AS run (id, place)
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(context, message) ORDER BY index) AS texts FROM trajectories_step WHERE trajectory_id = run.id
) AS step
"""
RUNS_AT_ONCE = 4
"""Received together: a run with all that was observed may be large."""


class Chat(NamedTuple):
    """What was said in a run, as JSON text that was kept as it came."""

    steps: bytes
    """A list of [context, message]."""
    tools: bytes
    """A list of the tools that the run was offered."""


class _Bytes(Loader):
    """Hands over a json value's text undecoded: orjson reads bytes faster than psycopg makes strings."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def read(runs: Sequence[UUID | str]) -> Iterator[Chat]:
    """What was said in each run, in the order asked for. Read it to its end: the connection is free only then."""
    with connection.cursor() as cursor:
        raw: Any = cursor.cursor
        raw.adapters.register_loader("json", _Bytes)
        wanted = "{" + ",".join(map(str, runs)) + "}"  # psycopg would quote them one by one
        for place, (found, steps, tools) in enumerate(raw.stream(STEPS, [wanted], size=RUNS_AT_ONCE), start=1):
            if found != place:
                raise RuntimeError(
                    "Postgres answered the trajectories out of order; the query plan is not the expected one."
                )
            yield Chat(steps or b"[]", tools)
