"""What an exception says of the services that the product stands on: that one is away, or that a disk is full."""

from collections.abc import Iterator
from enum import Enum

from django.db import InterfaceError, OperationalError
from kombu.exceptions import OperationalError as BrokerError
from psycopg.errors import DiskFull as DatabaseDiskFull
from redis.exceptions import (
    ConnectionError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)

from apps.common import disk

AWAY = (
    *(OperationalError, InterfaceError, BrokerError, ConnectionError, TimeoutError),
    *(OutOfMemoryError, ReadOnlyError, MasterDownError),
)
"""What is raised while PostgreSQL or Valkey restarts, reads its files (LOADING is a ConnectionError), or takes no changes."""
CANNOT_PERSIST = "MISCONF"
"""What Valkey answers to every change while it cannot write its file, which is what a full disk comes to."""
NO_SPACE = ("No space left on device", "Disk quota exceeded")


class Outage(Enum):
    """Something that passes: the request was right, and can be sent again later. The value is its HTTP status."""

    AWAY = 503
    DISK_FULL = 507


def outage_of(error: BaseException | None) -> Outage | None:
    """Which outage `error` comes from, itself or by what it was raised from; None where it is something else."""
    causes = list(_causes(error))
    if any(map(_is_disk_full, causes)):
        return Outage.DISK_FULL
    return Outage.AWAY if any(isinstance(cause, AWAY) for cause in causes) else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_disk_full(error: BaseException) -> bool:
    if isinstance(error, DatabaseDiskFull) or disk.says_full(error):
        return True
    if isinstance(error, ResponseError):
        return CANNOT_PERSIST in str(error)  # a pipeline puts the name of its command in front
    return isinstance(error, AWAY) and any(words in str(error) for words in NO_SPACE)
