"""Removes the rows of a test without a transaction of its own. Django truncates every table, which takes longer than most of these tests."""

from functools import cache
from typing import Any

from django.db import OperationalError, connection, transaction
from django.test import TransactionTestCase
from psycopg.errors import DeadlockDetected

KEPT = {"django_migrations"}
TRIES = 5


def install() -> None:
    """Replace Django's way."""
    TransactionTestCase._fixture_teardown = delete_rows  # type: ignore[attr-defined]  # private, but what subclasses override


def delete_rows(_: Any) -> None:
    """Delete the rows of all tables that have some. What a closed page sends last, or the clock, may hold some: of two that wait for each other PostgreSQL ends one."""
    for _ in range(TRIES - 1):
        try:
            return _delete_rows()
        except OperationalError as error:
            if not isinstance(error.__cause__, DeadlockDetected):
                raise
    return _delete_rows()


@transaction.atomic
def _delete_rows() -> None:
    tables = _tables()
    with connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(tables)}")  # as TRUNCATE would: no other process adds a row meanwhile
        cursor.execute(" UNION ALL ".join(f"SELECT '{each}' WHERE EXISTS (SELECT FROM {each})" for each in tables))
        deletions = [f"DELETE FROM {table}" for (table,) in cursor.fetchall()]
        # Without triggers, rows can be deleted before those that refer to them.
        cursor.execute(";".join(["SET LOCAL session_replication_role = replica", *deletions]))


@cache
def _tables() -> list[str]:
    names = connection.introspection.django_table_names(only_existing=True)
    return [connection.ops.quote_name(name) for name in sorted(set(names) - KEPT)]
