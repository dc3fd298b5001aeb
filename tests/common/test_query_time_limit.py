"""Time limits of queries."""

import pytest
from django.db import OperationalError, connection
from psycopg.errors import AdminShutdown

from apps.common.query_time_limit import TooSlow, query_time_limit

pytestmark = pytest.mark.django_db


def test_a_query_that_takes_too_long_is_ended():
    with pytest.raises(TooSlow), query_time_limit(50), connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(10)")


def test_a_database_that_shuts_down_is_not_a_slow_query():
    with pytest.raises(OperationalError), query_time_limit(1000):
        raise OperationalError("terminating connection") from AdminShutdown("terminating connection")
