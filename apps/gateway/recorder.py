"""Stores calls, and finds the session of a key. While the database is down, calls are kept in files and stored later."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

from channels.db import database_sync_to_async
from django.conf import settings
from django.core import serializers
from django.db import OperationalError, transaction
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Greatest
from django.utils.crypto import salted_hmac
from django.utils.timezone import now
from psycopg.errors import LockNotAvailable

from apps.accounts import api_tokens
from apps.accounts.authentication import digest_of
from apps.common.ids import new_id
from apps.common.outages import outage_of
from apps.common.query_time_limit import lock_time_limit
from apps.common.turns import Turns
from apps.gateway import live, sessions
from apps.gateway.call_graph import NODE_COLUMNS, CallGraph, Node
from apps.gateway.models import Call, Session
from apps.gateway.named_sessions import SessionName, member_with, named_session
from apps.gateway.queries import spent_since
from apps.gateway.refusals import BudgetSpent, NoSession, PriceUnknown, RecorderAway
from apps.gateway.spending.counters import Counters
from apps.gateway.spending.terms import NO_TERMS, Terms, terms_of
from apps.gateway.splits.routing import fail_over
from apps.redaction.models import RuleVersion
from apps.redaction.redaction import Rule
from apps.redaction.rules import rules_of
from contract import jsontext
from contract.values import Json

P = ParamSpec("P")
T = TypeVar("T")

THREADS = ThreadPoolExecutor(4, thread_name_prefix="gateway-database")
KNOWN_SESSIONS = 10_000
RELATED = ("endpoint", "policy", "split")
"""Relations of a session that calls need."""
OVERLAP = timedelta(seconds=3)
"""Overlap when looking for other processes' calls: they may be committed later than our latest one, although stored earlier."""
FLUSH_SECONDS = 2.0
TURNS = Turns(2)
"""Threads that one workspace may use to change sessions: the end of a large session holds its row for seconds, and its calls wait for that."""
LOCK_MILLISECONDS = 1000
"""How long a call waits for its session's row before it's kept in a file."""
AWAY = "Retrace's database isn't responding. Try again in a moment."
REPLAY_SECONDS = 120.0
REPLAY_BYTES = 32 << 20
"""Redacted replies are also kept unredacted in this process's memory, for this long and up to this size."""
logger = logging.getLogger(__name__)


@dataclass
class Known:
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


async def in_database(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in one of the gateway's threads."""
    run = database_sync_to_async(function, thread_sensitive=False, executor=THREADS)
    result: T = await run(*args, **kwargs)
    return result


async def in_turn(session: Session, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that may wait for the session's row, in at most a few of the gateway's threads for each workspace."""
    async with TURNS.of(session.workspace_id):
        return await in_database(function, *args, **kwargs)


class Recorder:
    """A gateway process's cache of sessions, and its storage of calls."""

    def __init__(self, spool: Path) -> None:
        self.spool = spool
        self._counters = Counters(_spent_since)
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._digests: OrderedDict[tuple[str, SessionName, str], str] = OrderedDict()
        """Digests of the sessions' keys, by the token, the name, and the model of a call."""
        self._may_have_spooled = True
        """Whether calls may wait in files; initially those of a previous process."""
        self._flushing: asyncio.Task[None] | None = None
        self._unredacted: OrderedDict[UUID, tuple[float, bytes]] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def admit(self, key: str) -> None:
        """Check a key before its request is read, so that invalid ones cost nothing. The session is looked up again with the request.

        Raises NoSession, RecorderAway.
        """
        digest = digest_of(key)
        if not key.startswith(api_tokens.MARK):
            if digest not in self._known:
                await self._session_with(digest)
        elif not any(asked[0] == digest for asked in self._digests):
            try:
                await in_database(member_with, key)
            except Exception as error:
                if outage_of(error) is None:
                    raise
                raise RecorderAway(AWAY) from None

    async def admit_call(self, known: Known) -> None:
        """Check a new call against the limits of its workspace and its session. Raises RateLimited, LimitReached, PriceUnknown, RecorderAway."""
        limits, session = known.terms.limits, known.session
        if limits is None:
            return
        if limits.has_money and known.terms.rates is None and session.endpoint_id is not None:
            raise PriceUnknown(
                f"This workspace limits its daily spending, but {session.public_name} has no price. "
                "An owner can set one under Settings, Usage."
            )
        await self._counters.admit(limits, session.pk)

    async def begin(self, known: Known) -> None:
        """Count a call before it costs anything: of many concurrent ones, those beyond the budget are refused. Raises BudgetSpent."""
        known.refuse_beyond_budget()
        known.under_way += 1
        if known.session.max_calls is None:
            return
        try:
            has_room = await in_turn(known.session, _count_call, known.session)
        except Exception as error:
            if outage_of(error) is None:
                raise
            return  # `refuse_beyond_budget` counts those of this process
        if not has_room:
            known.under_way -= 1
            raise BudgetSpent(f"This session may have {known.session.max_calls:,} calls, and has used them up.")

    async def session_of(self, key: str) -> Known:
        """The session of a key, with all its calls. While the database is down, its last known state. Raises NoSession, RecorderAway."""
        return await self._session_with(digest_of(key))

    async def named_session(self, token: str, name: SessionName, body: dict[str, Any]) -> Known:
        """The session with that name, opened if there is none. Raises NoSession, NoSuchModel, RecorderAway."""
        asked = (digest_of(token), name, str(body.get("model")))
        try:
            digest = await in_database(named_session, token, name, body)
        except Exception as error:
            if outage_of(error) is None:
                raise
            if asked not in self._digests:
                raise RecorderAway(AWAY) from None
            digest = self._digests[asked]
        self._digests[asked] = digest
        if len(self._digests) > KNOWN_SESSIONS:
            self._digests.popitem(last=False)
        return await self._session_with(digest)

    async def fail_over(self, known: Known, why: str) -> bool:
        """Move a session whose arm can't be reached to the champion; returns whether there is one. False while the database is down."""
        try:
            moved = await in_turn(known.session, fail_over, known.session.pk, why)
        except Exception as error:
            if outage_of(error) is None:
                raise
            return False
        if moved is None:
            return False
        moved.tokens_used = max(moved.tokens_used, known.session.tokens_used)
        known.session = moved
        return True

    async def _session_with(self, digest: str) -> Known:
        try:
            known = await in_database(_load, digest, self._known.get(digest))
        except Exception as error:
            if outage_of(error) is None:
                raise
            if settings.GATEWAY_WITHOUT_DATABASE == "refuse" or digest not in self._known:
                raise RecorderAway(AWAY) from None
            return self._known[digest]
        if known is None:
            self._known.pop(digest, None)
            raise NoSession(
                "This key belongs to no session, or its owner has lost access. Create a session with POST /api/v1/sessions, and use the key that it returns."
            )
        self._known[digest] = known
        self._known.move_to_end(digest)
        if len(self._known) > KNOWN_SESSIONS:
            self._known.popitem(last=False)
        if self._may_have_spooled:
            self._flush_soon()
        return known

    async def record(self, known: Known, call: Call, tokens: int = 0) -> None:
        """Store a call that used this many tokens, in the database or in a file. Returns once it's durable. Never raises: a recorder failure must not
        stop an agent.
        """
        call.id = new_id()
        known.under_way -= 1
        known.session.tokens_used += tokens
        if known.busy_until > time.monotonic() or not await self._stored(known, call, tokens):
            await asyncio.to_thread(self._keep, call)
            self._may_have_spooled = True
            self._flush_soon()
        if call.status == Call.Status.OK:
            known.graph.add([Node.of(call)])
        self._background(in_database(live.notify_viewers, call.session_id))
        if (limits := known.terms.limits) is not None:
            dollars = call.cost or Decimal(0)
            self._background(self._counters.add(limits, call.session_id, tokens=tokens, dollars=dollars))

    async def _stored(self, known: Known, call: Call, tokens: int) -> bool:
        """Whether the database has the call now."""
        is_free = call.status == Call.Status.FAILED and not tokens
        try:
            await in_turn(known.session, store, call, tokens, is_free=is_free)
        except Exception as error:
            if is_locked(error):
                known.busy_until = time.monotonic() + FLUSH_SECONDS
            elif outage_of(error) is None:
                logger.exception("call %s of session %s could not be stored", call.id, call.session_id)
            return False
        return True

    def remember(self, call_id: UUID, reply: Json) -> None:
        """Keep a reply in memory that is stored redacted, for a retry by the agent's library."""
        until = time.monotonic() + REPLAY_SECONDS
        self._unredacted[call_id] = until, jsontext.dumps(reply)
        self._forget()

    def reply_of(self, call_id: UUID) -> Json:
        """A reply as sent to the agent, if it's still in memory; otherwise None."""
        self._forget()
        _, reply = self._unredacted.get(call_id, (0.0, b"null"))
        return cast("Json", jsontext.loads(reply))

    def _forget(self) -> None:
        held = sum(len(reply) for _, reply in self._unredacted.values())
        for call_id, (until, reply) in list(self._unredacted.items()):
            if until > time.monotonic() and held <= REPLAY_BYTES:
                break
            held -= len(reply)
            del self._unredacted[call_id]

    def _keep(self, call: Call) -> None:
        self.spool.mkdir(parents=True, exist_ok=True)
        unfinished = self.spool / f"{call.id}.unfinished"
        try:
            with unfinished.open("w") as file:
                file.write(serializers.serialize("json", [call]))
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(self.spool / f"{call.id}.json")
        except OSError:
            logger.exception(
                "call %s of session %s is lost: no database, and no room for a file", call.id, call.session_id
            )

    def _has_spooled(self) -> bool:
        return self.spool.is_dir() and any(self.spool.glob("*.json"))

    def _flush_soon(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        while self._may_have_spooled:
            self._may_have_spooled = False  # set again if calls are kept from here on
            if not await asyncio.to_thread(self._has_spooled):
                continue
            self._may_have_spooled = True
            try:
                await in_database(store_spooled, self.spool)
            except Exception as error:
                if outage_of(error) is None:
                    logger.exception("calls in %s could not be stored", self.spool)
                await asyncio.sleep(FLUSH_SECONDS)

    def _background(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def store_spooled(spool: Path) -> None:
    """Store the calls in files, oldest first, except those whose session is locked. If one can't be stored for a reason other than an outage, it's set
    aside and the reason logged.

    Raises what `outage_of` recognizes if some are left.
    """
    locked: dict[UUID, Exception] = {}
    for path in sorted(spool.glob("*.json")):
        call = None
        try:
            [each] = serializers.deserialize("json", path.read_text())
            call = cast("Call", each.object)
            if call.session_id not in locked:
                store(_with_parent(call), is_free=False)
                path.unlink(missing_ok=True)
        except FileNotFoundError:  # another process was faster
            continue
        except Exception as error:
            if call is not None and is_locked(error):
                locked[call.session_id] = error
            elif outage_of(error) is not None:
                raise
            else:
                logger.exception("%s can't be stored", path)
                path.rename(path.with_suffix(".refused"))
    for refusal in locked.values():
        raise refusal


def is_locked(error: Exception) -> bool:
    """Whether somebody held the row for longer than `lock_time_limit`."""
    return isinstance(error, OperationalError) and isinstance(error.__cause__, LockNotAvailable)


@lock_time_limit(LOCK_MILLISECONDS)
def _count_call(session: Session) -> bool:
    """Count a call if the session's limit allows it; returns whether it does."""
    room = Session.objects.filter(pk=session.pk, calls_begun__lt=F("max_calls"))
    return bool(room.update(calls_begun=F("calls_begun") + 1))


@lock_time_limit(LOCK_MILLISECONDS)
def store(call: Call, tokens: int = 0, *, is_free: bool) -> None:
    """Store a call, idempotently. If the session has ended meanwhile, its trajectories are completed; if it was deleted, nothing is stored.

    is_free: doesn't count against the session's calls.
    """
    try:
        session = call.session
    except Session.DoesNotExist:  # it was deleted while the call was in a file
        return
    Call.objects.bulk_create([call], ignore_conflicts=True)
    # This waits for whoever is finishing the session, and then changes nothing, since the outcome is fixed.
    news: dict[str, Any] = {
        "expires_at": now() + timedelta(seconds=session.idle_seconds),
        "tokens_used": F("tokens_used") + tokens,
    }
    if is_free:
        news["calls_begun"] = Greatest(F("calls_begun") - 1, 0)
    if not Session.objects.open().filter(pk=session.pk).update(**news):
        ended = Session.objects.select_for_update().filter(pk=session.pk).first()
        if ended is None:
            transaction.set_rollback(True)
        else:
            sessions.store_trajectories(ended)


def _with_parent(call: Call) -> Call:
    """Remove the reference to a parent whose file was lost."""
    if call.parent_id and not Call.objects.filter(pk=call.parent_id).exists():
        call.parent_id, call.join = None, ""
    return call


def _load(digest: str, known: Known | None) -> Known | None:
    if known is None:
        good = Session.objects.with_good_keys().filter(key_digest=digest)
        session = good.select_related(*RELATED).first()
        if session is None:
            return None
        known = Known(session, CallGraph(_digest_key(session)), rules_of(session.workspace_id))
    else:  # everything except state, costs, and failover was fixed when it was opened
        good = Session.objects.with_good_keys().filter(key_digest=digest)
        version = RuleVersion.objects.filter(pk=OuterRef("workspace")).values("number")
        found = good.values_list("state", "tokens_used", "policy_id", Subquery(version)).first()
        if found is None:
            return None
        known.session.state = found[0]
        known.session.tokens_used = max(found[1], known.session.tokens_used)
        known.rules = rules_of(known.session.workspace_id, found[3] or 0)
        if found[2] != known.session.policy_id:  # another process moved it to the champion
            used, known.session = known.session.tokens_used, good.select_related(*RELATED).get()
            known.session.tokens_used = used
    known.terms = terms_of(known.session.workspace_id, known.session.policy_id, known.session.endpoint_id)
    calls = Call.objects.filter(session=known.session, status=Call.Status.OK)
    if last := known.graph.last:
        calls = calls.filter(id__gte=_shortly_before(last))
    known.graph.add(Node.of_columns(*row) for row in calls.values_list(*NODE_COLUMNS))
    return known


async def _spent_since(workspace_id: UUID, session_id: UUID | None, since: datetime) -> Decimal:
    cost = await in_database(spent_since, since, workspace_id, session_id)
    return cost.dollars


def _digest_key(session: Session) -> bytes:
    """Useless to somebody with only the database."""
    return salted_hmac("gateway digests", str(session.pk), algorithm="sha256").digest()


def _shortly_before(call_id: UUID) -> UUID:
    moment = (call_id.int >> 80) - int(OVERLAP.total_seconds() * 1000)
    return UUID(int=max(moment, 0) << 80)
