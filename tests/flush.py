"""Removes the rows of a test without a transaction of its own. Django truncates every table, which takes longer than most of these tests."""

from functools import cache
from typing import Any

from django.db import connection, transaction
from django.test import TransactionTestCase

KEPT = {"django_migrations"}


def install() -> None:
    """Replace Django's way, for tests that no other process takes part in."""
    TransactionTestCase._fixture_teardown = delete_rows  # type: ignore[attr-defined]  # private, but what subclasses override


def delete_rows(_: Any) -> None:
    """Delete the rows of all tables that have some, regardless of what refers to them."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_tables_with_rows())
        deletions = [f'DELETE FROM "{table}"' for (table,) in cursor.fetchall()]
        cursor.execute(";".join(["SET LOCAL session_replication_role = replica", *deletions]))


@cache
def _tables_with_rows() -> str:
    tables = sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT)
    return " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT FROM \"{table}\")" for table in tables)
