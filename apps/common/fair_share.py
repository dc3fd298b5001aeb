"""Limits how many requests of one person, and of one workspace, a process works on at once, so that slow ones, such as those that wait for a
locked row, leave database connections and threads to everybody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, NamedTuple
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse

from apps.common.limits import TooManyTries, too_many
from apps.common.request_threads import release_connections

AT_ONCE = 4
"""Per person: half of DATABASE_POOL."""
MAX_WAITING = 36
WORKSPACE_AT_ONCE = 6
"""All people of a workspace, who may be many, or one person with many accounts."""
WORKSPACE_MAX_WAITING = 150
"""Limit of a workspace's waiting requests. Together with WORKSPACE_AT_ONCE, well below the threads of a process (`request_threads`)."""
LONG_STEPS = 5_000
"""Comparing and rendering more steps takes long, and much memory."""
WAIT_SECONDS = 15.0
RETRY_AFTER = 2


class Share(NamedTuple):
    """How many requests of `holder`, such as a person or a workspace, a process works on at once, and how many may wait."""

    holder: Hashable
    at_once: int
    max_waiting: int


def of_person(person: int) -> Share:
    return Share(("person", person), AT_ONCE, MAX_WAITING)


def of_workspace(workspace: UUID) -> Share:
    return Share(("workspace", workspace), WORKSPACE_AT_ONCE, WORKSPACE_MAX_WAITING)


def of_long_requests(share: Share) -> Share:
    """The same holder's requests that show long items. A few at once would slow down all threads of the process and fill its memory."""
    return Share(("long", share.holder), 1, WORKSPACE_MAX_WAITING)


@dataclass(eq=False)
class _Waiting:
    """A request that waits for its turn, without a connection."""

    shares: tuple[Share, ...]
    has_begun: Event = field(default_factory=Event)


class FairShare:
    """The requests in progress and waiting in this process, by holder. The one that has waited longest begins first, if all its shares allow."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._under_way: Counter[Hashable] = Counter()
        self._line: list[_Waiting] = []

    def enter(self, *shares: Share) -> None:
        """Begin a request once few enough of each holder's are in progress. Raises TooManyTries."""
        request = _Waiting(shares)
        with self._lock:
            if self._may_begin(request):
                self._begin(request)
                return
            self._line_up(request)
        release_connections()
        if request.has_begun.wait(WAIT_SECONDS):
            return
        with self._lock:
            if not request.has_begun.is_set():
                self._line.remove(request)
                raise TooManyTries(RETRY_AFTER)

    def leave(self, *shares: Share) -> None:
        with self._lock:
            for share in shares:
                self._under_way[share.holder] -= 1
                if not self._under_way[share.holder]:
                    del self._under_way[share.holder]
            for request in [*self._line]:
                if self._may_begin(request):
                    self._line.remove(request)
                    self._begin(request)

    def _may_begin(self, request: _Waiting) -> bool:
        return all(self._under_way[share.holder] < share.at_once for share in request.shares)

    def _begin(self, request: _Waiting) -> None:
        self._under_way.update(share.holder for share in request.shares)
        request.has_begun.set()

    def _line_up(self, request: _Waiting) -> None:
        waiting = Counter(share.holder for each in self._line for share in each.shares)
        if any(waiting[share.holder] >= share.max_waiting for share in request.shares):
            raise TooManyTries(RETRY_AFTER)
        self._line.append(request)


SHARES = FairShare()


def enter(request: HttpRequest, *shares: Share) -> None:
    """Begin a request once its holders' shares allow, unless it has begun; the middleware ends it. Raises TooManyTries."""
    held: tuple[Share, ...] = getattr(request, "shares", ())
    wanted = [share for share in shares if share not in held]
    SHARES.enter(*wanted)
    request.shares = (*held, *wanted)  # type: ignore[attr-defined]  # see FairShareMiddleware


def enter_long(request: HttpRequest, *, steps: int) -> None:
    """If a request shows this many steps, begin it once no other one of its workspace does, or of its person, who may have many. Raises TooManyTries."""
    if steps > LONG_STEPS:
        enter(request, *map(of_long_requests, getattr(request, "shares", ())))


class FairShareMiddleware:
    """Begins requests for pages, and ends every request once its response is complete; streaming responses hold nothing that others need.

    Those of the API begin in `apps.accounts.authentication`, which knows the tokens.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            return self.get_response(request)
        finally:
            SHARES.leave(*getattr(request, "shares", ()))

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        if request.path.startswith("/api/") or not request.user.is_authenticated:
            return None
        workspace = _workspace(request)
        try:
            enter(request, of_person(request.user.pk), *([of_workspace(workspace)] if workspace else []))
        except TooManyTries as refusal:
            return too_many(request, refusal)
        return None


def _workspace(request: HttpRequest) -> UUID | None:
    """The current workspace; None for people without one."""
    try:
        found: UUID = request.member.workspace_id  # type: ignore[attr-defined]  # set by CurrentMembershipMiddleware
    except Http404:
        return None
    return found
