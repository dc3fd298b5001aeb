"""Caches sessions, finds the session of a key, and records calls."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.db.models import OuterRef, QuerySet, Subquery
from django.utils.crypto import salted_hmac

from apps.accounts import api_tokens
from apps.accounts.authentication import digest_of
from apps.common.compiled_queries import CompiledRows
from apps.common.ids import new_id
from apps.common.outages import outage_of
from apps.common.query_time_limit import is_locked
from apps.gateway import live, spool
from apps.gateway.call_graph import NODE_COLUMNS, CallGraph, Node
from apps.gateway.call_storage import count_call, in_database, in_turn, store
from apps.gateway.models import Call, Session
from apps.gateway.named_sessions import SessionName, member_with, named_session
from apps.gateway.queries import spent_since
from apps.gateway.refusals import BudgetSpent, NoSession, PriceUnknown, RecorderAway
from apps.gateway.spending.counters import Counters
from apps.gateway.spending.terms import NO_TERMS, Terms, terms_of
from apps.gateway.splits.routing import fail_over
from apps.gateway.spool import Spool
from apps.redaction.models import RuleVersion
from apps.redaction.redaction import Rule
from apps.redaction.rules import rules_of
from contract import jsontext
from contract.values import Json

MAX_SESSIONS = 10_000
RELATED = ("endpoint", "policy", "split")
"""Relations of a session that calls need."""
OVERLAP = timedelta(seconds=3)
"""Overlap when looking for other processes' calls: they may be committed later than our latest one, although stored earlier."""
AWAY = "Retrace's database isn't responding. Try again in a moment."
FIRST_ID = UUID(int=0)
REPLAY_SECONDS = 120.0
REPLAY_BYTES = 32 << 20
"""Redacted replies are also kept unredacted in this process's memory, for this long and up to this size."""
logger = logging.getLogger(__name__)


@dataclass
class CachedSession:
    """A session and its call graph as cached in this process."""

    session: Session
    graph: CallGraph
    rules: Sequence[Rule] = ()
    """Redaction rules for its calls."""
    terms: Terms = NO_TERMS
    """Its prices and usage limits."""
    under_way: int = 0
    """Calls in this process that aren't stored yet."""
    busy_until: float = 0.0
    """Until when its row counts as locked, by time.monotonic: its calls are kept in files rather than each waiting for it."""

    def refuse_beyond_budget(self) -> None:
        """Check the budget by this process's knowledge. Raises BudgetSpent."""
        session = self.session
        if session.max_calls is not None and len(self.graph.nodes) + self.under_way >= session.max_calls:
            raise BudgetSpent(f"This session may have {session.max_calls:,} calls, and has used them up.")
        used = max(self.graph.tokens, session.tokens_used)
        if session.max_tokens is not None and used >= session.max_tokens:
            raise BudgetSpent(f"This session may use {session.max_tokens:,} tokens, and has used {used:,}.")


class Recorder:
    """A gateway process's cache of sessions, and its storage of calls."""

    def __init__(self, spool_folder: Path) -> None:
        self.spool = Spool(spool_folder)
        self._counters = Counters(_spent_since)
        self._sessions: OrderedDict[str, CachedSession] = OrderedDict()
        self._digests: OrderedDict[tuple[str, SessionName, str], str] = OrderedDict()
        """Digests of the sessions' keys, by the token, the name, and the model of a call."""
        self._workspaces: OrderedDict[str, UUID] = OrderedDict()
        """The workspaces of tokens, by the token's digest."""
        self._unredacted: OrderedDict[UUID, tuple[float, bytes]] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def admit(self, key: str) -> UUID:
        """Check a key before its request is read, so that invalid ones cost nothing. Returns the workspace. The session is looked up again with the request.

        Raises NoSession, RecorderAway.
        """
        digest = digest_of(key)
        if not key.startswith(api_tokens.MARK):
            cached = self._sessions.get(digest) or await self._session_with(digest)
            return cached.session.workspace_id
        if digest not in self._workspaces:
            try:
                member = await in_database(member_with, key)
            except Exception as error:
                if outage_of(error) is None:
                    raise
                raise RecorderAway(AWAY) from None
            self._workspaces[digest] = member.workspace_id
            if len(self._workspaces) > MAX_SESSIONS:
                self._workspaces.popitem(last=False)
        return self._workspaces[digest]

    async def admit_call(self, cached: CachedSession) -> None:
        """Check a new call against the limits of its workspace and its session. Raises RateLimited, LimitReached, PriceUnknown, RecorderAway."""
        limits, session = cached.terms.limits, cached.session
        if limits is None:
            return
        if limits.has_money and cached.terms.rates is None and session.endpoint_id is not None:
            raise PriceUnknown(
                f"This workspace limits its daily spending, but {session.public_name} has no price. "
                "An owner can set one under Settings, Usage."
            )
        await self._counters.admit(limits, session.pk)

    async def begin(self, cached: CachedSession) -> None:
        """Count a call before it costs anything: of many concurrent ones, those beyond the budget are refused. Raises BudgetSpent."""
        cached.refuse_beyond_budget()
        cached.under_way += 1
        if cached.session.max_calls is None:
            return
        try:
            fits = await in_turn(cached.session, count_call, cached.session)
        except Exception as error:
            if outage_of(error) is None:
                raise
            return  # `refuse_beyond_budget` counts those of this process
        if not fits:
            cached.under_way -= 1
            raise BudgetSpent(f"This session may have {cached.session.max_calls:,} calls, and has used them up.")

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

    async def fail_over(self, cached: CachedSession, why: str) -> bool:
        """Move a session whose arm can't be reached to the champion; returns whether there is one. False while the database is down."""
        try:
            moved = await in_turn(cached.session, fail_over, cached.session.pk, why)
        except Exception as error:
            if outage_of(error) is None:
                raise
            return False
        if moved is None:
            return False
        moved.tokens_used = max(moved.tokens_used, cached.session.tokens_used)
        cached.session = moved
        return True

    async def _session_with(self, digest: str) -> CachedSession:
        try:
            cached = await in_database(_load, digest, self._sessions.get(digest))
        except Exception as error:
            if outage_of(error) is None:
                raise
            if settings.GATEWAY_WITHOUT_DATABASE == "refuse" or digest not in self._sessions:
                raise RecorderAway(AWAY) from None
            return self._sessions[digest]
        if cached is None:
            self._sessions.pop(digest, None)
            raise NoSession(
                "This key belongs to no session, or its owner has lost access. Create a session with POST /api/v1/sessions, and use the key that it returns."
            )
        self._sessions[digest] = cached
        self._sessions.move_to_end(digest)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        self.spool.start_flush()
        return cached

    async def record(self, cached: CachedSession, call: Call, tokens: int = 0) -> None:
        """Store a call that used this many tokens, in the database or in a file. Returns once it's durable. Never raises: a recorder failure must not
        stop an agent.
        """
        call.id = new_id()
        cached.under_way -= 1
        cached.session.tokens_used += tokens
        if cached.busy_until > time.monotonic() or not await self._stored(cached, call, tokens):
            await self.spool.add(call)
        if call.status == Call.Status.OK:
            cached.graph.add([Node.of(call)])
        self._background(in_database(live.notify_viewers, call.session_id))
        if (limits := cached.terms.limits) is not None:
            dollars = call.cost or Decimal(0)
            self._background(self._counters.add(limits, call.session_id, tokens=tokens, dollars=dollars))

    async def _stored(self, cached: CachedSession, call: Call, tokens: int) -> bool:
        """Whether the database has the call now."""
        is_free = call.status == Call.Status.FAILED and not tokens
        try:
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

    def _background(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _load(digest: str, cached: CachedSession | None) -> CachedSession | None:
    if cached is None:
        valid = Session.objects.with_valid_keys().filter(key_digest=digest)
        session = valid.select_related(*RELATED).first()
        if session is None:
            return None
        cached = CachedSession(session, CallGraph(_digest_key(session)), rules_of(session.workspace_id))
    else:  # everything except state, costs, and failover was fixed when it was opened
        if not (changing := _CHANGING.rows(digest=digest)):
            return None
        [(state, tokens_used, policy_id, rule_version)] = changing
        cached.session.state = state
        cached.session.tokens_used = max(tokens_used, cached.session.tokens_used)
        cached.rules = rules_of(cached.session.workspace_id, rule_version or 0)
        if policy_id != cached.session.policy_id:  # another process moved it to the champion
            valid = Session.objects.with_valid_keys().filter(key_digest=digest)
            used, cached.session = cached.session.tokens_used, valid.select_related(*RELATED).get()
            cached.session.tokens_used = used
    cached.terms = terms_of(cached.session.workspace_id, cached.session.policy_id, cached.session.endpoint_id)
    since = _id_shortly_before(last) if (last := cached.graph.last) else FIRST_ID
    cached.graph.add(Node.of_columns(*row) for row in _ANSWERED.rows(session=cached.session.pk, since=since))
    return cached


def _changing(digest: str) -> QuerySet[Session, Any]:
    """What may have changed in a cached session, if its key is still valid."""
    version = RuleVersion.objects.filter(pk=OuterRef("workspace")).values("number")
    valid = Session.objects.with_valid_keys().filter(key_digest=digest)
    return valid.values_list("state", "tokens_used", "policy_id", Subquery(version))


def _answered(session: UUID, since: UUID) -> QuerySet[Call, Any]:
    calls = Call.objects.filter(session=session, status=Call.Status.OK, id__gte=since)
    return calls.values_list(*NODE_COLUMNS)


_CHANGING, _ANSWERED = CompiledRows(_changing, digest=str), CompiledRows(_answered, session=UUID, since=UUID)


async def _spent_since(workspace_id: UUID, session_id: UUID | None, since: datetime) -> Decimal:
    cost = await in_database(spent_since, since, workspace_id, session_id)
    return cost.dollars


def _digest_key(session: Session) -> bytes:
    """The key of the digests in a session's call graph. It isn't in the database, so whoever has only that can't verify guesses."""
    return salted_hmac("gateway digests", str(session.pk), algorithm="sha256").digest()


def _id_shortly_before(call_id: UUID) -> UUID:
    milliseconds = (call_id.int >> 80) - int(OVERLAP.total_seconds() * 1000)
    return UUID(int=max(milliseconds, 0) << 80)
