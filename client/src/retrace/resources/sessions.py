"""Sessions of external agents, by their ids. `client.session` opens one for a `with` block."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.sessions import Abandon, Finish, NewEvent, NewSession, OpenedSession, Session, SessionEvent, Trace


class Sessions(Resource[C]):
    @listing
    def list(self, *, name: str | None = None, page_size: int | None = None) -> Listing[Session]:
        """All sessions, newest first, or those that agents named `name` in X-Session-Id."""
        return Listing("/sessions", Session, {"name": name, "page_size": page_size})

    @operation
    def create(self, **session: Unpack[NewSession]) -> Flow[OpenedSession]:
        """Open a session. Its key is shown only once."""
        return self._create("/sessions", answer=OpenedSession, body=session, is_remembered=False)

    @operation
    def read(self, session_id: str) -> Flow[Session]:
        """Read the state of a session."""
        return self._read("/sessions/{}", session_id, answer=Session)

    @operation
    def record(self, session_id: str, **event: Unpack[NewEvent]) -> Flow[SessionEvent]:
        """Record an event, such as a reward, for a session or one of its calls. Events are deduplicated by `key`."""
        return self._create("/sessions/{}/events", session_id, answer=SessionEvent, body=event)

    @operation
    def finish(self, session_id: str, **outcome: Unpack[Finish]) -> Flow[Session]:
        """Finish a session with its outcome; its calls become a trajectory. Repeating the same outcome changes nothing."""
        return self._create("/sessions/{}/finish", session_id, answer=Session, body=outcome)

    @operation
    def renew(self, session_id: str) -> Flow[Session]:
        """Keep a session open although it makes no calls."""
        return self._act("/sessions/{}/renew", session_id, answer=Session)

    @operation
    def abandon(self, session_id: str, **why: Unpack[Abandon]) -> Flow[Session]:
        """End a session with an unknown outcome. A leased episode is given out again."""
        return self._create("/sessions/{}/abandon", session_id, answer=Session, body=why)

    @operation
    def trace(self, session_id: str) -> Flow[Trace]:
        """Read a session's calls so far, as a trajectory, and its events."""
        return self._read("/sessions/{}/trace", session_id, answer=Trace)
