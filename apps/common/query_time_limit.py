"""A time limit for queries whose cost depends on what users typed or stored, so that they can't hold one of the few database connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import Error, OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable, QueryCanceled


class TooSlow(Exception):
    """A query took longer than its time limit."""


@contextmanager
def lock_time_limit(milliseconds: int) -> Iterator[None]:
    """A transaction in which nothing waits longer than this for a locked row; exceeding it counts as an outage (`apps.common.outages`)."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(milliseconds)])
        yield


@contextmanager
def periodic_lock_time_limit(milliseconds: int = 1000) -> Iterator[None]:
    """Limits lock waits in periodic work that spans many transactions: none waits longer than this for a locked row.

    The work is repeated anyway, and a long deletion or a suspended worker may hold a row for hours. If every repetition waited for it, soon all
    workers would be waiting.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [str(milliseconds)])
    try:
        yield
    finally:
        with suppress(Error), connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")


@contextmanager
def unless_locked() -> Iterator[None]:
    """Skip the rest of the block if it waited too long for a locked row: the next run of the periodic work retries it."""
    try:
        yield
    except OperationalError as error:
        if not is_locked(error):
            raise


def is_locked(error: Exception) -> bool:
    """Whether the error is a lock wait that exceeded one of these limits."""
    return isinstance(error, OperationalError) and isinstance(error.__cause__, LockNotAvailable)


@contextmanager
def query_time_limit(milliseconds: int) -> Iterator[None]:
    """A transaction in which no query may take longer than this. Raises TooSlow."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(milliseconds)])
            yield
            cursor.execute(
                "SET LOCAL statement_timeout TO DEFAULT"
            )  # doesn't apply to the rest of an outer transaction
    except OperationalError as problem:
        if isinstance(problem.__cause__, QueryCanceled):
            raise TooSlow from problem
        raise
