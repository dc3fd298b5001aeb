"""Removes the rows of tests that don't run in a transaction. Django would truncate every table, which takes longer than most of these tests."""

from functools import cache
from typing import Any

from django.db import OperationalError, connection, transaction
from django.test import TransactionTestCase
from psycopg.errors import DeadlockDetected

KEPT = {"django_migrations", "django_content_type"}
"""Migrations fill these."""
TRIES = 5


def install() -> None:
    """Replace Django's method."""
    TransactionTestCase._fixture_teardown = delete_rows  # type: ignore[attr-defined]  # private, but what subclasses override


def delete_rows(_: Any) -> None:
    """Delete all rows from nonempty tables. A closed page's last request, or a periodic task, may hold locks; PostgreSQL aborts one side of a deadlock."""
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
        cursor.execute(
            f"LOCK TABLE {', '.join(tables)}"
        )  # as TRUNCATE would, so that no other process adds a row meanwhile
        cursor.execute(" UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in tables))
        deletions = [f"DELETE FROM {table}" for (table,) in cursor.fetchall()]
        # With triggers disabled, rows can be deleted before those that refer to them.
        cursor.execute(";".join(["SET LOCAL session_replication_role = replica", *deletions]))


@cache
def _tables() -> list[str]:
    names = connection.introspection.django_table_names(only_existing=True)
    return [connection.ops.quote_name(name) for name in sorted(set(names) - KEPT)]
