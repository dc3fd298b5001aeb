"""A time limit for queries whose cost depends on what users typed or stored, so that they can't hold one of the few database connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import Error, OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable


class TooSlow(Exception):
    """A query took longer than its time limit."""


@contextmanager
def lock_time_limit(milliseconds: int) -> Iterator[None]:
    """A transaction in which nothing waits longer than this for a locked row; it's an outage (`apps.common.outages`) if it would."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(milliseconds)])
        yield


@contextmanager
def periodic_lock_time_limit(milliseconds: int = 1000) -> Iterator[None]:
    """For periodic work in many transactions: none waits longer than this for a locked row.

    It's repeated anyway, and a long deletion or a suspended worker may hold a row for hours. If each repetition waited for it, soon all workers would.
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
    """Skip the rest of the block if it waited too long for a locked row: periodic work comes back to it."""
    try:
        yield
    except OperationalError as error:
        if not is_locked(error):
            raise


def is_locked(error: Exception) -> bool:
    """Whether somebody held a row for longer than one of these limits."""
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
        raise TooSlow from problem
