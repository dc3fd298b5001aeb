"""Live updates of a session's page."""

from __future__ import annotations

from uuid import UUID

from django.core.cache import cache
from django.template.loader import render_to_string

from apps.accounts.models import Membership
from apps.common import live
from apps.common.live import LiveConsumer
from apps.gateway.models import Session
from apps.gateway.queries import progress_context

WATCHED_SECONDS = 6 * 3600


def group_of(session_id: UUID) -> str:
    """The channel group for a session."""
    return f"session.{session_id}"


def state_of(session: Session) -> str:
    """The progress partial."""
    return render_to_string("gateway/_session_state.html", progress_context(session))


def notify_viewers(*session_ids: UUID) -> None:
    """Notify the sessions' viewers. If they have none, this costs one Valkey request."""
    with live.best_effort("sessions"):
        watched = cache.get_many(map(_key, session_ids))
        for session_id in session_ids:
            if _key(session_id) in watched:
                live.send(group_of(session_id), state_of(Session.objects.select_related("policy").get(pk=session_id)))


def _key(session_id: UUID) -> str:
    return f"session-watched:{session_id}"


class SessionConsumer(LiveConsumer):
    """Progress of one session."""

    def find_group(self, member: Membership) -> str | None:
        session_id: UUID = self.scope["url_route"]["kwargs"]["session_id"]
        if not Session.objects.visible_to(member).filter(pk=session_id).exists():
            return None
        cache.set(_key(session_id), True, WATCHED_SECONDS)
        return group_of(session_id)
