"""Which exceptions indicate an outage: those that psycopg, redis-py, Celery, and the system really raise."""

import errno

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from django.db import IntegrityError, OperationalError, connection
from kombu.exceptions import OperationalError as BrokerError
from psycopg import errors
from psycopg.conninfo import make_conninfo
from redis._parsers.base import BaseParser

from apps import settings as app_settings
from apps.common.outages import Outage, outage_of

NO_EXTENSION = 'could not extend file "base/5/16384": No space left on device'


def wrapped(cause: Exception) -> OperationalError:
    """The database driver's exception, wrapped as Django does."""
    error = OperationalError(*cause.args)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        wrapped(errors.DiskFull(NO_EXTENSION)),
        wrapped(errors.IoError("could not write to file: No space left on device")),
        BaseParser.parse_error("MISCONF Errors writing to the AOF file: No space left on device"),
        BaseParser.parse_error("MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk."),
    ],
)  # fmt: skip
def test_a_full_disk_is_known_whoever_met_it(error):
    assert outage_of(error) == Outage.DISK_FULL


@pytest.mark.parametrize(
    "answer",
    [
        "OOM command not allowed when used memory > 'maxmemory'.",
        "READONLY You can't write against a read only replica.",
        "LOADING Valkey is loading the dataset in memory",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    ],
)
def test_a_valkey_that_takes_no_changes_is_away(answer):
    assert outage_of(BaseParser.parse_error(answer)) == Outage.AWAY


@pytest.mark.parametrize(
    "error",
    [
        wrapped(errors.AdminShutdown("terminating connection due to administrator command")),
        BrokerError("Error 2 connecting to unix socket"),
    ],
)
def test_a_service_that_restarts_is_away(error):
    assert outage_of(error) == Outage.AWAY


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("No space left on device"),
        OSError(errno.ENOENT, "No such file or directory"),
        IntegrityError("duplicate key value violates unique constraint"),
        BaseParser.parse_error("WRONGTYPE Operation against a key holding the wrong kind of value"),
    ],
)
def test_a_fault_of_ours_is_no_outage(error):
    assert outage_of(error) is None


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (ConnectionClosedError(endpoint_url="https://bucket.example.org"), Outage.AWAY),
        (ReadTimeoutError(endpoint_url="https://bucket.example.org"), Outage.AWAY),
        (EndpointConnectionError(endpoint_url="https://bucket.example.org"), Outage.AWAY),
        (ConnectTimeoutError(endpoint_url="https://bucket.example.org"), Outage.AWAY),
        (ClientError({"ResponseMetadata": {"HTTPStatusCode": 503}}, "PutObject"), Outage.AWAY),
        (OSError(errno.EROFS, "Read-only file system", "/var/lib/retrace/x"), Outage.AWAY),
        (ClientError({"ResponseMetadata": {"HTTPStatusCode": 403}}, "PutObject"), None),
    ],
)
def test_a_store_of_files_that_does_not_respond_is_away_and_one_that_refuses_is_not(error, outage):
    assert outage_of(error) == outage


def test_a_statement_whose_host_has_disappeared_fails_unless_the_database_url_says_otherwise():
    given = app_settings._database("postgresql://retrace@db/retrace?tcp_user_timeout=60000&connect_timeout=3")[
        "OPTIONS"
    ]
    assert given.items() >= {"tcp_user_timeout": "60000", "keepalives_idle": 10, "connect_timeout": "3"}.items()
    assert connection.get_connection_params().items() >= app_settings.LOST_HOST.items()
    make_conninfo(**app_settings.LOST_HOST)  # refuses what libpq doesn't know
