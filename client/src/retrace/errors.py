"""Everything that this package raises on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class RetraceError(Exception):
    """Something didn't work. `str()` is one or two sentences: what went wrong, and what to do.

    `status` is the HTTP status where the server answered, and `request` the method and address that were asked for.
    """

    def __init__(self, message: str, *, status: int | None = None, request: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.request = request


class RequestRefused(RetraceError):
    """The server said no. `detail` and `fields` are its words: `fields` names each wrong field and what is wrong with it."""

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
    """401 or 403: the token is missing, expired or revoked, or its owner's role doesn't allow this."""


class NotFound(RequestRefused):
    """404: the token's workspace has no such thing, or hides it from this role."""


class Conflict(RequestRefused):
    """409: the request is fine, but the state of what it's about doesn't allow it now."""


class ServerUnreachable(RetraceError):
    """No answer came, also after all retries."""


class UnexpectedAnswer(RetraceError):
    """The answer isn't one of Retrace's: another server, a proxy's page, or a version that is too different."""


class JobFailed(RetraceError):
    """What was waited for failed or was cancelled. `job` is its last state."""

    def __init__(self, message: str, job: object) -> None:
        super().__init__(message)
        self.job = job


def refusal_class(status: int) -> type[RequestRefused]:
    """The class for a status of 400 and above."""
    return {401: NotAuthorized, 403: NotAuthorized, 404: NotFound, 409: Conflict}.get(status, RequestRefused)
