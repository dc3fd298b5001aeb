"""Retrace from Python: `retrace.Client`, `retrace.AsyncClient`."""

from retrace.client import AsyncClient, Client
from retrace.core.request import Progress
from retrace.core.retries import Retries
from retrace.errors import (
    Conflict,
    JobFailed,
    NotAuthorized,
    NotFound,
    RequestRefused,
    RetraceError,
    ServerUnreachable,
    UnexpectedAnswer,
)
from retrace.version import VERSION as __version__

__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "JobFailed",
    "NotAuthorized",
    "NotFound",
    "Progress",
    "RequestRefused",
    "RetraceError",
    "Retries",
    "ServerUnreachable",
    "UnexpectedAnswer",
    "__version__",
]
