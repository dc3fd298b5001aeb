"""Sets the current membership on requests (lazily) and on websocket connections."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from apps.accounts.membership import current_membership
from apps.accounts.models import Membership
from apps.common.http import NotHere


class CurrentMembershipMiddleware:
    """Sets `request.member`. Accessing it without a membership raises a 404."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.member = SimpleLazyObject(lambda: _member(request))  # type: ignore[attr-defined]  # see apps.common.http
        return self.get_response(request)


def _member(request: HttpRequest) -> Membership:
    member = current_membership(request.user, request.session)
    if member is None:
        raise NotHere("You aren't in a workspace. Ask an owner for an invitation.")
    return member


MAX_SOCKETS = 50
"""Open connections of one person per process. Each checks its access again whenever one of the person's sessions ends, and one thread does that for everybody."""


class MemberOnSocket:
    """ASGI: sets `scope["member"]`, the current membership or None, and a check whether the session ended. Use it inside AuthMiddlewareStack.

    Refuses connections beyond MAX_SOCKETS; their pages poll instead.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._open: Counter[int | None] = Counter()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        person = scope["user"].pk
        if person is not None and self._open[person] >= MAX_SOCKETS:
            await WebsocketDenier()(scope, receive, send)
            return
        self._open[person] += 1
        try:
            await self._connect(scope, receive, send)
        finally:
            self._open[person] -= 1
            if not self._open[person]:
                del self._open[person]

    async def _connect(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        member = await database_sync_to_async(current_membership)(scope["user"], scope["session"])
        is_over = partial(_is_over, scope["session"], scope["user"].pk)
        await self.inner({**scope, "member": member, "session_is_over": is_over}, receive, send)


def _is_over(session: SessionBase, user_id: int | None) -> bool:
    """Whether this person's session has ended, by signing out or a password change."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session.session_key)
    return get_user(request).pk != user_id
