"""The exceptions of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class RetraceError(Exception):
    """Base class. `str()` is one or two sentences: what went wrong, and what to do.

    `status` is the HTTP status if there was a response; `request` is the method and path.
    """

    def __init__(self, message: str, *, status: int | None = None, request: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.request = request


class RequestRefused(RetraceError):
    """The server refused the request. `detail` and `fields` are its messages; `fields` maps each invalid field to its problems."""

    def __init__(
        self,
        detail: str,
        *,
        status: int,
        request: str,
        fields: Mapping[str, Sequence[str]] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.detail = detail
        self.fields = {name: list(problems) for name, problems in (fields or {}).items()}
        self.retry_after = retry_after
        untold = [
            f"{name}: {problem}"
            for name, problems in self.fields.items()
            for problem in problems
            if problem not in detail
        ]
        super().__init__(" ".join([detail, *untold]), status=status, request=request)


class NotAuthorized(RequestRefused):
    """401 or 403: the token is missing, expired, or revoked, or its owner's role doesn't allow this."""


class NotFound(RequestRefused):
    """404: the token's workspace has no such object, or the role may not see it."""


class Conflict(RequestRefused):
    """409: the request is valid, but the object's current state doesn't allow it."""


class ServerUnreachable(RetraceError):
    """There was no response, even after all retries."""


class UnexpectedAnswer(RetraceError):
    """The response isn't Retrace's: another server, a proxy's page, or an incompatible version."""


class JobFailed(RetraceError):
    """The awaited job failed or was cancelled. `job` is its last state."""

    def __init__(self, message: str, job: object) -> None:
        super().__init__(message)
        self.job = job


def refusal_class(status: int) -> type[RequestRefused]:
    """The exception class for a status of 400 or above."""
    return {401: NotAuthorized, 403: NotAuthorized, 404: NotFound, 409: Conflict}.get(status, RequestRefused)
