"""Python client of Retrace: `retrace.Client`, `retrace.AsyncClient`."""

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
from retrace.models.episodes import Episode
from retrace.runners import run
from retrace.version import VERSION as __version__

__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "Episode",
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
    "run",
]
