"""Tests use the same services as `make run`."""

import pytest
from django.db import connection


@pytest.mark.django_db
def test_the_database_is_postgres_18_in_utf8() -> None:
    assert connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding')")
        assert cursor.fetchone() == (18, "UTF8")


@pytest.mark.django_db
def test_text_sorts_by_code_point_on_every_machine() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(word, ' ' ORDER BY word) FROM unnest(ARRAY['b', 'a', 'B', 'é']) AS word")
        assert cursor.fetchone() == ("B a b é",)


@pytest.mark.django_db
def test_pgvector_can_be_installed() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        cursor.execute("SELECT '[3,4]'::vector <-> '[0,0]'::vector")
        assert cursor.fetchone() == (5.0,)  # 3² + 4² = 5²
