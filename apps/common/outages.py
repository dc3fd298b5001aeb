"""Classifies exceptions caused by outages: a service that is down, or a full disk."""

import errno
from collections.abc import Iterator
from enum import Enum

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as BucketUnreachable
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

BUCKET_AWAY = (HTTPClientError, BucketUnreachable)
"""Raised if a bucket can't be reached, or doesn't respond."""
AWAY = (
    *(OperationalError, InterfaceError, BrokerError, ConnectionError, TimeoutError),
    *(OutOfMemoryError, ReadOnlyError, MasterDownError),
    *BUCKET_AWAY,
)
"""Raised while PostgreSQL or Valkey restarts, loads its files (LOADING is a ConnectionError), or is read-only, and while a bucket is away."""
CANNOT_PERSIST = "MISCONF"
"""Valkey's reply to writes while it can't write its file, such as on a full disk."""
FAILED_DISK = (errno.EROFS, errno.EIO, errno.ESTALE)
"""A file store that was remounted read-only after an error, fails, or went away."""
NO_SPACE = ("No space left on device", "Disk quota exceeded")


class Outage(Enum):
    """A temporary failure: the request can be retried later. The value is its HTTP status."""

    AWAY = 503
    DISK_FULL = 507


def outage_of(error: BaseException | None) -> Outage | None:
    """The outage behind `error` or its causes; None if there is none."""
    causes = list(_causes(error))
    if any(map(_is_disk_full, causes)):
        return Outage.DISK_FULL
    is_away = any(isinstance(cause, AWAY) or _is_failed_store(cause) for cause in causes)
    return Outage.AWAY if is_away else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_failed_store(error: BaseException) -> bool:
    """Whether it's a disk's or a bucket's own error, not its refusal of a request."""
    if isinstance(error, OSError):
        return error.errno in FAILED_DISK
    return isinstance(error, ClientError) and error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500


def _is_disk_full(error: BaseException) -> bool:
    if isinstance(error, DatabaseDiskFull) or disk.is_out_of_space(error):
        return True
    if isinstance(error, ResponseError):
        return CANNOT_PERSIST in str(error)  # a pipeline prefixes the command's name
    return isinstance(error, AWAY) and any(message in str(error) for message in NO_SPACE)
