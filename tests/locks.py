"""Locks of the test database."""

from django.db import connection


def somebody_waits() -> bool:
    """Whether a transaction of this database is waiting for another one's lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            "WHERE NOT l.granted AND a.datname = current_database()"
        )
        return bool(cursor.fetchone()[0])
