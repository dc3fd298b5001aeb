"""When to resend a request, and how long to wait before."""

from __future__ import annotations

import random
from dataclasses import dataclass
from http import HTTPStatus

import httpx

from retrace.core.flow import Flow, pause, send
from retrace.core.replies import checked, retry_after
from retrace.core.request import Reply, Request
from retrace.errors import ServerUnreachable

BUSY = frozenset({502, 503, 504})
TOO_MANY = 429
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class Retries:
    """Up to `most` retries; the delays double from `first_seconds` up to `longest_seconds`.

    The server's `Retry-After` is obeyed up to `patience_seconds`; a longer one ends the attempts at once.
    """

    most: int = 5
    first_seconds: float = 0.5
    longest_seconds: float = 20.0
    patience_seconds: float = 120.0

    def delay(self, attempt: int, retry_after: float | None = None) -> float | None:
        """Seconds to wait after attempt number `attempt`, counted from 0; None to give up."""
        if attempt >= self.most or (retry_after or 0) > self.patience_seconds:
            return None
        backoff = min(self.longest_seconds, self.first_seconds * 2.0**attempt)
        # Jitter, so that clients that were disconnected together don't all come back together.
        return max(retry_after or 0.0, backoff * random.uniform(0.5, 1.0))


def exchange(request: Request, retries: Retries) -> Flow[Reply]:
    """Send until there is a final response, and return it. Raises RetraceError for an error response, or if there is none.

    A request that isn't idempotent is resent only if it certainly wasn't received, or was rejected unprocessed.
    """
    attempt = 0
    while True:
        try:
            reply = yield from send(request)
        except httpx.RequestError as error:
            may = request.may_be_repeated or isinstance(error, NEVER_SENT)
            delay = retries.delay(attempt) if may else None
            if delay is None:
                raise unreachable(request, error, attempt + 1) from error
        else:
            may = reply.status == TOO_MANY or (
                request.may_be_repeated and (reply.status in BUSY or is_in_progress(reply))
            )
            delay = retries.delay(attempt, retry_after(reply.headers)) if may else None
            if delay is None:
                return checked(request, reply)
        attempt += 1
        yield from pause(delay)


def is_in_progress(reply: Reply) -> bool:
    """Whether the server is still carrying out the request that this one repeats."""
    return reply.status == HTTPStatus.CONFLICT and retry_after(reply.headers) is not None


def unreachable(request: Request, error: Exception, attempts: int) -> ServerUnreachable:
    """The exception for a missing response."""
    reason = str(error) or type(error).__name__
    times = "once" if attempts == 1 else f"{attempts} times"
    doubt = (
        ""
        if request.may_be_repeated or isinstance(error, NEVER_SENT)
        else " It may have been carried out; check first."
    )
    return ServerUnreachable(f"{request} was sent {times} without an answer: {reason}.{doubt}", request=str(request))
