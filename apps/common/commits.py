"""Commits that nobody waits for."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def unawaited() -> Iterator[None]:
    """A transaction whose commit does not wait for the disk, for what is done again after a crash of Postgres anyway.

    A later commit that does wait has everything before it on the disk too.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off")
        yield
