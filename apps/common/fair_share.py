"""Limits how many requests of one person, and of one workspace, a process works on at once, so that slow ones, such as those that wait for a
locked row, leave database connections and threads to everybody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse

from apps.common.limits import TooManyTries, too_many
from apps.common.request_threads import release_connections

AT_ONCE = 4
"""Limit for one person: half of DATABASE_POOL."""
MAX_WAITING = 36
WORKSPACE_AT_ONCE = 6
"""Limit for all people of a workspace, who may be many, or one person with many accounts."""
WORKSPACE_MAX_WAITING = 150
"""Limit of a workspace's waiting requests. Together with WORKSPACE_AT_ONCE, well below the threads of a process (`request_threads`)."""
LONG_STEPS = 5_000
"""Comparing and rendering more steps takes long, and much memory."""
WAIT_SECONDS = 15.0
RETRY_AFTER = 2

Holder = int | UUID
"""A person, or a workspace."""


@dataclass(eq=False)
class _Waiting:
    """A request that waits for its turn, without a connection."""

    person: int | None
    workspace: UUID | None
    has_begun: Event = field(default_factory=Event)

    @property
    def holders(self) -> list[Holder]:
        return [holder for holder in (self.person, self.workspace) if holder is not None]


class FairShare:
    """The requests in progress and waiting in this process, by person and workspace. The one that has waited longest begins first, if its share allows."""

    def __init__(self, *, workspace_at_once: int = WORKSPACE_AT_ONCE) -> None:
        self._workspace_at_once = workspace_at_once
        self._lock = Lock()
        self._under_way: Counter[Holder] = Counter()
        self._line: list[_Waiting] = []

    def enter(self, person: int | None, workspace: UUID | None = None) -> None:
        """Begin a request once few enough of this person's and of this workspace's are in progress. Raises TooManyTries."""
        request = _Waiting(person, workspace)
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

    def leave(self, person: int | None, workspace: UUID | None = None) -> None:
        with self._lock:
            for holder in _Waiting(person, workspace).holders:
                self._under_way[holder] -= 1
                if not self._under_way[holder]:
                    del self._under_way[holder]
            for request in [*self._line]:
                if self._may_begin(request):
                    self._line.remove(request)
                    self._begin(request)

    def _may_begin(self, request: _Waiting) -> bool:
        return all(self._under_way[holder] < self._at_once(holder) for holder in request.holders)

    def _begin(self, request: _Waiting) -> None:
        self._under_way.update(request.holders)
        request.has_begun.set()

    def _line_up(self, request: _Waiting) -> None:
        of_person = sum(each.person == request.person is not None for each in self._line)
        of_workspace = sum(each.workspace == request.workspace is not None for each in self._line)
        if of_person >= MAX_WAITING or of_workspace >= WORKSPACE_MAX_WAITING:
            raise TooManyTries(RETRY_AFTER)
        self._line.append(request)

    def _at_once(self, holder: Holder) -> int:
        return AT_ONCE if isinstance(holder, int) else self._workspace_at_once


SHARES = FairShare()
LONG_SHARES = FairShare(workspace_at_once=1)
"""Requests that show long trajectories. A few at once would slow down all threads of the process and fill its memory."""


def enter(request: HttpRequest, person: int | None, workspace: UUID | None) -> None:
    """Begin a request of a person or of a workspace's key, unless it has begun; the middleware ends it. Raises TooManyTries."""
    if not hasattr(request, "share_of"):
        SHARES.enter(person, workspace)
        request.share_of = (person, workspace)  # type: ignore[attr-defined]  # see FairShareMiddleware


def enter_long(request: HttpRequest, workspace: UUID, *, steps: int) -> None:
    """If a request shows this many steps, begin it once no other one of its workspace does; the middleware ends it. Raises TooManyTries."""
    if steps > LONG_STEPS and not hasattr(request, "long_share_of"):
        LONG_SHARES.enter(None, workspace)
        request.long_share_of = workspace  # type: ignore[attr-defined]  # see FairShareMiddleware


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
            long_share: Any = getattr(request, "long_share_of", None)
            if long_share is not None:
                LONG_SHARES.leave(None, long_share)
            share: Any = getattr(request, "share_of", None)
            if share is not None:
                SHARES.leave(*share)

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        if request.path.startswith("/api/") or not request.user.is_authenticated:
            return None
        try:
            enter(request, request.user.pk, _workspace(request))
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
