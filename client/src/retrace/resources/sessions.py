"""Sessions of agents that live elsewhere, by their ids. `client.session` opens one for a `with` block."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.sessions import Abandon, Finish, NewEvent, NewSession, OpenedSession, Session, SessionEvent, Trace


class Sessions(Resource[C]):
    @listing
    def list(self, *, name: str | None = None, page_size: int | None = None) -> Listing[Session]:
        """All sessions, newest first, or those that agents called `name` in X-Session-Id."""
        return Listing("/sessions", Session, {"name": name, "page_size": page_size})

    @operation
    def create(self, **session: Unpack[NewSession]) -> Flow[OpenedSession]:
        """Open a session. Its key is shown this once."""
        return self._create("/sessions", answer=OpenedSession, body=session, is_remembered=False)

    @operation
    def read(self, session_id: str) -> Flow[Session]:
        """Read how a session is doing."""
        return self._read("/sessions/{}", session_id, answer=Session)

    @operation
    def record(self, session_id: str, **event: Unpack[NewEvent]) -> Flow[SessionEvent]:
        """Record an event, such as a reward, of a session or of one of its calls. The same key again is the same event."""
        return self._create("/sessions/{}/events", session_id, answer=SessionEvent, body=event)

    @operation
    def finish(self, session_id: str, **outcome: Unpack[Finish]) -> Flow[Session]:
        """Finish a session with what came of it; its calls become a trajectory. The same outcome again changes nothing."""
        return self._create("/sessions/{}/finish", session_id, answer=Session, body=outcome)

    @operation
    def renew(self, session_id: str) -> Flow[Session]:
        """Say that a session goes on though it makes no calls."""
        return self._act("/sessions/{}/renew", session_id, answer=Session)

    @operation
    def abandon(self, session_id: str, **why: Unpack[Abandon]) -> Flow[Session]:
        """End a session whose outcome nobody can tell. An episode that was leased is given out again."""
        return self._create("/sessions/{}/abandon", session_id, answer=Session, body=why)

    @operation
    def trace(self, session_id: str) -> Flow[Trace]:
        """Read a session's calls so far, as a trajectory, and its events."""
        return self._read("/sessions/{}/trace", session_id, answer=Trace)
