"""Asynchronous commits."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def unawaited() -> Iterator[None]:
    """A transaction whose commit doesn't wait for the disk, for work that is redone after a Postgres crash anyway.

    A later synchronous commit also flushes everything before it.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off")
        yield
