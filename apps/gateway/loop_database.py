"""Single statements that the event loop runs itself, over connections of its own.

A switch to a thread and back costs as much processor time as such a statement, and a thread that computes delays the loop, since Python runs one at a
time. Each statement is a transaction of its own.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db import connection as django_connection
from psycopg import AsyncConnection, AsyncCursor
from psycopg.types.numeric import Int8Dumper

CONNECTIONS = 4
CONNECT_SECONDS = 10
LOCK_MILLISECONDS = 1000
"""How long a statement waits for a locked row; exceeding it counts as an outage (`apps.common.outages`)."""


class LoopDatabase:
    """One event loop's connections, opened when they're needed."""

    def __init__(self) -> None:
        self._idle: list[AsyncConnection[Any]] = []
        self._turns = asyncio.Semaphore(CONNECTIONS)
        # Of one connection of Django's, which is never opened: `django.db.connection` would make another for each task.
        self._djangos_errors = connections.create_connection(DEFAULT_DB_ALIAS).wrap_database_errors

    async def rows(self, statement: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows that a statement returns. Raises Django's database errors."""
        async with self._turns, self._connection() as connection:
            cursor = await connection.execute(statement, params, prepare=True)
            return await cursor.fetchall()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        with self._djangos_errors:
            connection = self._intact() or await _connect()
            try:
                yield connection
            finally:
                if connection.closed or connection.info.transaction_status:  # it broke, or was interrupted
                    await connection.close()
                else:
                    self._idle.append(connection)

    def _intact(self) -> AsyncConnection[Any] | None:
        """An idle connection. When the server closes one, it has something to read, so nothing needs to be asked."""
        while self._idle:
            connection = self._idle.pop()
            readiness = select.poll()
            readiness.register(connection.fileno(), select.POLLIN)
            if not readiness.poll(0):
                return connection
            connection.pgconn.finish()
        return None


async def _connect() -> AsyncConnection[Any]:
    """A connection with Django's parameters."""
    params = django_connection.get_connection_params() | {"cursor_factory": AsyncCursor, "autocommit": True}
    params["prepare_threshold"] = 0  # with Django's None, `prepare=True` would have no effect
    connection = await AsyncConnection.connect(**{"connect_timeout": CONNECT_SECONDS, **params})
    # Integers have one type whatever their size, since each combination of types is a prepared statement.
    connection.adapters.register_dumper(int, Int8Dumper)
    await connection.execute(f"SET lock_timeout = {LOCK_MILLISECONDS}")
    return connection
