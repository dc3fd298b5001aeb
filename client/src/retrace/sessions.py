"""A session as a `with` block, for an agent's program."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal
from uuid import uuid4

from retrace.core.connection import AsyncConnection, Connection
from retrace.core.flow import Flow
from retrace.core.operations import C, Resource, operation
from retrace.core.request import Request, address
from retrace.core.retries import Retries, exchange
from retrace.errors import RetraceError
from retrace.models.sessions import Finish, NewSession, OpenedSession, SessionEvent, Trace
from retrace.models.sessions import Session as SessionState
from retrace.resources.sessions import Sessions

Outcome = Literal["success", "failure", "none"]
SUCCESS: dict[Outcome, bool | None] = {"success": True, "failure": False, "none": None}
LONGEST_MESSAGE = 2000
HASTY = Retries(most=1)
"""Used while an exception propagates: the exception matters more than recording it."""


class Session(Resource[C]):
    """One episode, opened by `with` or `async with`.

    An agent's library only needs `base_url` and `api_key`. A block that ends normally finishes the session.
    After an exception the session stays unfinished, with the exception recorded, and is eventually abandoned: its outcome is unknown.
    """

    def __init__(self, connection: C, session: NewSession) -> None:
        super().__init__(connection)
        self._wanted = session
        self._opened: OpenedSession | None = None
        self._is_finished = False

    @property
    def opened(self) -> OpenedSession:
        """The server's response when it was opened."""
        if self._opened is None:
            raise RetraceError("The session isn't open yet. Use it in a block: with client.session(…) as session.")
        return self._opened

    @property
    def id(self) -> str:
        return self.opened.id

    @property
    def base_url(self) -> str:
        """For the agent's library, instead of its model's address."""
        return self.opened.base_url

    @property
    def api_key(self) -> str:
        """For the agent's library. Valid only for this session."""
        return self.opened.api_key

    @operation
    def reward(
        self, value: float, *, name: str | None = None, call: str | None = None, key: str | None = None
    ) -> Flow[SessionEvent]:
        """Record a reward of the session or, with `call`, of one of its calls. Rewards are deduplicated by `key`."""
        return _record(self, key, {"type": "reward", "name": name, "value": value, "call": call})

    @operation
    def note(
        self, name: str, value: Any = None, *, call: str | None = None, key: str | None = None
    ) -> Flow[SessionEvent]:
        """Record any other event."""
        return _record(self, key, {"type": "custom", "name": name, "value": value, "call": call})

    @operation
    def finish(
        self,
        *,
        outcome: Outcome = "none",
        reward: float | None = None,
        rewards: Mapping[str, float] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Flow[SessionState]:
        """Finish the session. The default `reward` is the sum of the recorded ones; the outcome `none` means unknown."""
        if outcome not in SUCCESS:
            raise ValueError(f"{outcome!r} isn't an outcome. Give success, failure, or none.")
        body: Finish = {"success": SUCCESS[outcome], "rewards": rewards or {}, "metadata": metadata or {}}
        if reward is not None:
            body["reward"] = reward
        return _finish(self, body)

    @operation
    def trace(self) -> Flow[Trace]:
        """The calls so far, as a trajectory, and the events."""
        return Sessions.trace.flow(self, self.id)

    def __enter__(self: Session[Connection]) -> Session[Connection]:
        self._connection.run(_open(self))
        return self

    def __exit__(self: Session[Connection], kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            with suppress(RetraceError):
                self._connection.run(_note_exception(self, error))
        elif error is None and not self._is_finished:
            self.finish()

    async def __aenter__(self: Session[AsyncConnection]) -> Session[AsyncConnection]:
        await self._connection.run(_open(self))
        return self

    async def __aexit__(
        self: Session[AsyncConnection], kind: object, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, Exception):
            with suppress(RetraceError):
                await self._connection.run(_note_exception(self, error))
        elif error is None and not self._is_finished:
            await self.finish()


def _open(session: Session[Any]) -> Flow[None]:
    if session._opened is not None:
        raise RetraceError("The session was opened already. Open another: each episode has a session of its own.")
    session._opened = yield from Sessions.create.flow(session, **session._wanted)


def _record(session: Session[Any], key: str | None, event: dict[str, Any]) -> Flow[SessionEvent]:
    body = {name: value for name, value in event.items() if value is not None}
    return Sessions.record.flow(session, session.id, key=key or str(uuid4()), **body)


def _finish(session: Session[Any], body: Finish) -> Flow[SessionState]:
    state = yield from Sessions.finish.flow(session, session.id, **body)
    session._is_finished = True
    return state


def _note_exception(session: Session[Any], error: Exception) -> Flow[None]:
    value = {"type": type(error).__name__, "message": str(error)[:LONGEST_MESSAGE]}
    event = {"key": str(uuid4()), "type": "custom", "name": "exception", "value": value}
    request = Request("POST", address("/sessions/{}/events", session.id), body=event, is_remembered=True)
    yield from exchange(request, HASTY)
