"""How many requests of one person a process works on at once, so that slow ones, such as those that wait for a locked row, leave database
connections and threads to everybody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Condition
from typing import Any

from django.http import HttpRequest, HttpResponse

from apps.common.limits import TooManyTries, too_many
from apps.common.request_threads import release_connections

AT_ONCE = 4
"""Half of DATABASE_POOL."""
MAX_WAITING = 36
"""Together with AT_ONCE, well below the threads of a process (`request_threads`)."""
WAIT_SECONDS = 15.0
RETRY_AFTER = 2


class FairShare:
    """The requests under way and waiting in this process, by person."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._under_way: Counter[int] = Counter()
        self._waiting: Counter[int] = Counter()

    def enter(self, person: int) -> None:
        """Begin a request, once fewer than AT_ONCE of this person's are under way. Raises TooManyTries."""
        with self._changed:
            if self._under_way[person] >= AT_ONCE:
                self._wait(person)
            self._under_way[person] += 1

    def _wait(self, person: int) -> None:
        if self._waiting[person] >= MAX_WAITING:
            raise TooManyTries(RETRY_AFTER)
        release_connections()
        self._waiting[person] += 1
        try:
            if not self._changed.wait_for(lambda: self._under_way[person] < AT_ONCE, WAIT_SECONDS):
                raise TooManyTries(RETRY_AFTER)
        finally:
            self._waiting[person] -= 1
            self._forget(person, self._waiting)

    def leave(self, person: int) -> None:
        with self._changed:
            self._under_way[person] -= 1
            self._forget(person, self._under_way)
            self._changed.notify_all()

    def _forget(self, person: int, counts: Counter[int]) -> None:
        if not counts[person]:
            del counts[person]


SHARES = FairShare()


def enter(request: HttpRequest, person: int) -> None:
    """Begin a person's request, unless it has begun; the middleware ends it. Raises TooManyTries."""
    if not hasattr(request, "share_of"):
        SHARES.enter(person)
        request.share_of = person  # type: ignore[attr-defined]  # see FairShareMiddleware


class FairShareMiddleware:
    """Begins requests for pages, and ends all that have begun once their response is complete; a streamed one holds nothing that others need.

    Those of the API begin in `apps.accounts.authentication`, which knows the tokens.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            return self.get_response(request)
        finally:
            person: Any = getattr(request, "share_of", None)
            if person is not None:
                SHARES.leave(person)

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        if request.path.startswith("/api/") or not request.user.is_authenticated:
            return None
        try:
            enter(request, request.user.pk)
        except TooManyTries as refusal:
            return too_many(request, refusal)
        return None
