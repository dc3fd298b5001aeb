"""PostgreSQL's advisory locks, by name. Nobody waits for a lock that is held: callers do something else. PostgreSQL releases those of a killed process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

from django.db import connection


def number_of(name: str) -> int:
    """The lock's 64-bit number in PostgreSQL."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def try_lock(name: str) -> bool:
    """Whether the lock was free; it's held until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [number_of(name)])
        return bool(cursor.fetchone()[0])


@contextmanager
def lock_if_free(name: str) -> Iterator[bool]:
    """Yields whether the lock was free; it's held until the end of the block, across transactions."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [number_of(name)])
        [is_acquired] = cursor.fetchone()
    try:
        yield is_acquired
    finally:
        if is_acquired:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [number_of(name)])
