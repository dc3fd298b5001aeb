"""When a request is sent again, and how long to wait before."""

from __future__ import annotations

import random
from dataclasses import dataclass

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
    """At most `most` more attempts after the first; the waits double from `first_seconds` up to `longest_seconds`.

    A `Retry-After` of the server is obeyed up to `patience_seconds`; a longer one ends the attempts at once.
    """

    most: int = 5
    first_seconds: float = 0.5
    longest_seconds: float = 20.0
    patience_seconds: float = 120.0

    def delay(self, attempt: int, retry_after: float | None = None) -> float | None:
        """Seconds to wait after attempt number `attempt`, counted from 0; None: give up."""
        if attempt >= self.most or (retry_after or 0) > self.patience_seconds:
            return None
        backoff = min(self.longest_seconds, self.first_seconds * 2.0**attempt)
        # Jitter, so that a hundred clients that were cut off together don't come back together.
        return max(retry_after or 0.0, backoff * random.uniform(0.5, 1.0))


def exchange(request: Request, retries: Retries) -> Flow[Reply]:
    """Send until an answer comes that counts, and return it. Raises RetraceError where it's an error or none comes.

    What can't be repeated is sent again only if it certainly didn't arrive, or was turned away unread.
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
            may = reply.status == TOO_MANY or (reply.status in BUSY and request.may_be_repeated)
            delay = retries.delay(attempt, retry_after(reply.headers)) if may else None
            if delay is None:
                return checked(request, reply)
        attempt += 1
        yield from pause(delay)


def unreachable(request: Request, error: Exception, attempts: int) -> ServerUnreachable:
    """What to raise when there was no answer."""
    reason = str(error) or type(error).__name__
    times = "once" if attempts == 1 else f"{attempts} times"
    doubt = (
        "" if request.may_be_repeated or isinstance(error, NEVER_SENT) else " It may have been carried out: look first."
    )
    return ServerUnreachable(f"{request} was sent {times} without an answer: {reason}.{doubt}", request=str(request))
