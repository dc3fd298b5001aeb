"""Caches sessions, finds the session of a key, and records calls."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Coroutine
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.utils.timezone import now

from apps.accounts import api_tokens
from apps.accounts.authentication import digest_of
from apps.common.ids import new_id
from apps.common.outages import outage_of
from apps.common.query_time_limit import is_locked
from apps.gateway import live, spool
from apps.gateway.cached_session import CachedSession, session_to_cache
from apps.gateway.call_graph import Node
from apps.gateway.call_storage import count_call, in_database, in_turn, renew, store, store_in_open_session
from apps.gateway.loop_database import LoopDatabase
from apps.gateway.models import Call
from apps.gateway.named_sessions import SessionName, member_with, models_of, named_session
from apps.gateway.queries import spent_since
from apps.gateway.refusals import BudgetSpent, NoSession, PriceUnknown, RecorderAway
from apps.gateway.spending.counters import Counters
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import fail_over
from apps.gateway.spool import Spool
from apps.policies.models import Policy
from contract import jsontext
from contract.values import Json

MAX_SESSIONS = 10_000
AWAY = "Retrace's database isn't responding. Try again in a moment."
UNKNOWN_KEY = (
    "This key belongs to no session, or its owner has lost access. "
    "Create a session with POST /api/v1/sessions, and use the key that it returns."
)
NOTIFY_SECONDS = 0.2
"""How long new calls are collected before viewers are notified."""
RENEW_AGAIN_SECONDS = 1.0
"""When a session is renewed after the database was down."""
REPLAY_SECONDS = 120.0
REPLAY_BYTES = 32 << 20
"""Redacted replies are also kept unredacted in this process's memory, for this long and up to this size."""
logger = logging.getLogger(__name__)


class Recorder:
    """A gateway process's cache of sessions, and its storage of calls."""

    def __init__(self, spool_folder: Path) -> None:
        self.spool = Spool(spool_folder)
        self._database = LoopDatabase()
        self._counters = Counters(_spent_since)
        self._sessions: OrderedDict[str, CachedSession] = OrderedDict()
        self._digests: OrderedDict[tuple[str, SessionName, str], str] = OrderedDict()
        """Digests of the sessions' keys, by the token, the name, and the model of a call."""
        self._senders: OrderedDict[str, tuple[UUID, int]] = OrderedDict()
        """The workspaces and people of tokens, by the token's digest."""
        self._unredacted: OrderedDict[UUID, tuple[float, bytes]] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._to_notify: set[UUID] = set()
        """Sessions with new calls, whose viewers aren't notified yet."""

    async def admit(self, key: str) -> tuple[UUID | int, ...]:
        """Check a key before its request is read, so that invalid ones cost nothing. Returns the workspace, and the person if there is one. The session is
        looked up again with the request.

        Raises NoSession, RecorderAway.
        """
        digest = digest_of(key)
        try:
            if not key.startswith(api_tokens.MARK):
                session = (await self._cached(digest)).session
                person = session.created_by_id
                return (session.workspace_id,) if person is None else (session.workspace_id, person)
            if digest not in self._senders:
                member = await in_database(member_with, key)
                self._senders[digest] = member.workspace_id, member.user_id
                if len(self._senders) > MAX_SESSIONS:
                    self._senders.popitem(last=False)
            return self._senders[digest]
        except Exception as error:
            if outage_of(error) is None:
                raise
            raise RecorderAway(AWAY) from None

    async def admit_call(self, cached: CachedSession) -> None:
        """Check a new call against the limits of its workspace and its session. Raises RateLimited, LimitReached, PriceUnknown, RecorderAway."""
        self.refuse_unpriced(cached)
        if cached.terms.limits is not None:
            await self._counters.admit(cached.terms.limits, cached.session.pk)

    def refuse_unpriced(self, cached: CachedSession) -> None:
        """Refuse a call whose cost would be unknown while money is limited. Raises PriceUnknown."""
        limits, session = cached.terms.limits, cached.session
        if limits and limits.has_money and cached.terms.rates is None and session.endpoint_id is not None:
            raise PriceUnknown(
                f"This workspace limits its daily spending, but {session.public_name} has no price. "
                "An owner can set one under Settings, Usage."
            )

    async def begin(self, cached: CachedSession) -> None:
        """Count a call before it costs anything: of many concurrent ones, those beyond the budget are refused. Raises BudgetSpent."""
        cached.refuse_beyond_budget()
        cached.under_way += 1
        try:
            fits = cached.session.max_calls is None or await count_call(self._database, cached.session)
        except Exception as error:
            if outage_of(error) is None:
                self._end(cached)
                raise
            fits = True  # `refuse_beyond_budget` counts those of this process
        if not fits:
            self._end(cached)
            raise BudgetSpent(f"This session may have {cached.session.max_calls:,} calls, and has used them up.")
        if cached.renewal is None:
            cached.renewal = self._background(self._keep_open(cached))

    def _end(self, cached: CachedSession) -> None:
        """A call is no longer under way."""
        cached.under_way -= 1
        if not cached.under_way and cached.renewal is not None:
            cached.renewal.cancel()
            cached.renewal = None

    async def _keep_open(self, cached: CachedSession) -> None:
        """Renew a session until its calls are stored: one call may take longer than the session may be idle."""
        seconds = (cached.session.expires_at - now()).total_seconds() / 2
        while True:
            await asyncio.sleep(max(seconds, 0.0))
            try:
                if not await renew(self._database, cached.session):
                    return
                seconds = cached.session.idle_seconds / 2
            except Exception as error:
                if outage_of(error) is None:
                    raise
                seconds = RENEW_AGAIN_SECONDS

    async def session_of(self, key: str) -> CachedSession:
        """The session of a key, with all its calls. While the database is down, its last known state. Raises NoSession, RecorderAway."""
        return await self._session_with(digest_of(key))

    async def named_session(self, token: str, name: SessionName, body: dict[str, Any]) -> CachedSession:
        """The session with that name, opened if there is none. Raises NoSession, NoSuchModel, RecorderAway."""
        source = (digest_of(token), name, str(body.get("model")))
        try:
            digest = await in_database(named_session, token, name, body)
        except Exception as error:
            if outage_of(error) is None:
                raise
            if source not in self._digests:
                raise RecorderAway(AWAY) from None
            digest = self._digests[source]
        self._digests[source] = digest
        if len(self._digests) > MAX_SESSIONS:
            self._digests.popitem(last=False)
        return await self._session_with(digest)

    async def models_of(self, token: str) -> list[TrafficSplit | Policy]:
        """The models that a token may call. Raises NoSession, RecorderAway."""
        try:
            return await in_database(models_of, token)
        except Exception as error:
            if outage_of(error) is None:
                raise
            raise RecorderAway(AWAY) from None

    async def fail_over(self, cached: CachedSession, why: str) -> bool:
        """Move a session whose arm can't be reached to the champion, with the champion's prices; returns whether there is one. False while the
        database is down. Raises PriceUnknown.
        """
        try:
            moved = await in_turn(cached.session, fail_over, cached.session.pk, why)
            if moved is None:
                return False
            moved.tokens_used = max(moved.tokens_used, cached.session.tokens_used)
            cached.session = moved
            await cached.read_terms()
        except Exception as error:
            if outage_of(error) is None:
                raise
            return False
        self.refuse_unpriced(cached)
        return True

    async def _session_with(self, digest: str) -> CachedSession:
        try:
            cached = await self._cached(digest)
            is_valid = await cached.update(self._database)
        except Exception as error:
            if outage_of(error) is None:
                raise
            known = self._sessions.get(digest)
            if settings.GATEWAY_WITHOUT_DATABASE == "refuse" or known is None or not known.is_complete:
                raise RecorderAway(AWAY) from None
            return known
        if not is_valid:
            self._sessions.pop(digest, None)
            raise NoSession(UNKNOWN_KEY)
        self.spool.start_flush()
        return cached

    async def _cached(self, digest: str) -> CachedSession:
        """The session of a key, as it was when it was last updated. Raises NoSession."""
        cached = self._sessions.get(digest) or await session_to_cache(digest, self._database)
        if cached is None:
            raise NoSession(UNKNOWN_KEY)
        cached = self._sessions.setdefault(digest, cached)  # one for all calls, even if several were first
        self._sessions.move_to_end(digest)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return cached

    async def record(self, cached: CachedSession, call: Call, tokens: int = 0) -> None:
        """Store a call that used this many tokens, in the database or in a file. Returns once it's durable. Never raises: a recorder failure must not
        stop an agent.
        """
        call.id = new_id()
        self._end(cached)
        cached.session.tokens_used += tokens
        is_busy = cached.busy_until > time.monotonic()
        is_kept = (not is_busy and await self._stored(cached, call, tokens)) or await self.spool.add(call)
        if call.status == Call.Status.OK:
            if is_kept:  # of calls that continue a lost one, only a part would be stored
                cached.graph.add([Node.of(call)])
        elif not call.is_retry:
            cached.graph.note_failure(bytes(call.body_digest), call.id)
        self._notify_viewers(call.session_id)
        if (limits := cached.terms.limits) is not None:
            dollars = call.cost or Decimal(0)
            self._background(self._counters.add(limits, call.session_id, tokens=tokens, dollars=dollars))

    async def _stored(self, cached: CachedSession, call: Call, tokens: int) -> bool:
        """Whether the database has the call now."""
        is_free = call.status == Call.Status.FAILED and not tokens
        try:
            if not await store_in_open_session(self._database, call, tokens, is_free=is_free):
                await in_turn(cached.session, store, call, tokens, is_free=is_free)
        except Exception as error:
            if is_locked(error):
                cached.busy_until = time.monotonic() + spool.FLUSH_SECONDS
            elif outage_of(error) is None:
                logger.exception("call %s of session %s could not be stored", call.id, call.session_id)
            return False
        return True

    def remember(self, call_id: UUID, reply: Json) -> None:
        """Keep a reply in memory that is stored redacted, for a retry by the agent's library."""
        until = time.monotonic() + REPLAY_SECONDS
        self._unredacted[call_id] = until, jsontext.dumps(reply)
        self._evict()

    def reply_of(self, call_id: UUID) -> Json:
        """A reply as sent to the agent, if it's still in memory; otherwise None."""
        self._evict()
        _, reply = self._unredacted.get(call_id, (0.0, b"null"))
        return cast("Json", jsontext.loads(reply))

    def _evict(self) -> None:
        total_bytes = sum(len(reply) for _, reply in self._unredacted.values())
        for call_id, (until, reply) in list(self._unredacted.items()):
            if until > time.monotonic() and total_bytes <= REPLAY_BYTES:
                break
            total_bytes -= len(reply)
            del self._unredacted[call_id]

    def _notify_viewers(self, session_id: UUID) -> None:
        """Soon, together with those of other sessions: hardly any session has viewers."""
        if not self._to_notify:
            asyncio.get_running_loop().call_later(NOTIFY_SECONDS, self._notify)
        self._to_notify.add(session_id)

    def _notify(self) -> None:
        session_ids, self._to_notify = self._to_notify, set()
        self._background(in_database(live.notify_viewers, *session_ids))

    def _background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _spent_since(workspace_id: UUID, session_id: UUID | None, since: datetime) -> Decimal:
    cost = await in_database(spent_since, since, workspace_id, session_id)
    return cost.dollars
