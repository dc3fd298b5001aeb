"""A time limit for queries whose cost depends on what users typed or stored, so that they can't hold one of the few database connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection, transaction


class TooSlow(Exception):
    """A query took longer than its time limit."""


@contextmanager
def lock_time_limit(milliseconds: int) -> Iterator[None]:
    """A transaction in which nothing waits longer than this for a locked row; it's an outage (`apps.common.outages`) if it would."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(milliseconds)])
        yield


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
