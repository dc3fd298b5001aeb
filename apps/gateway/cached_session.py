"""Sessions as cached in a gateway process: read once, and updated for each call by one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import FilteredRelation, OuterRef, Q, QuerySet, Subquery
from django.utils.crypto import salted_hmac

from apps.common.compiled_queries import CompiledQuery, CompiledRows
from apps.gateway.call_graph import NODE_COLUMNS, CallGraph, Node
from apps.gateway.call_storage import in_database
from apps.gateway.loop_database import LoopDatabase
from apps.gateway.models import Call, Session
from apps.gateway.refusals import BudgetSpent
from apps.gateway.spending.terms import NO_TERMS, Terms, cached_terms, terms_of
from apps.redaction.models import RuleVersion
from apps.redaction.redaction import Rule
from apps.redaction.rules import rules_of

OVERLAP = timedelta(seconds=3)
"""Overlap when looking for other processes' calls: they may be committed later than our latest one, although stored earlier."""
FIRST_ID = UUID(int=0)
UNREAD: Final = -1


@dataclass
class CachedSession:
    """A session and its call graph."""

    session: Session
    graph: CallGraph
    rules: Sequence[Rule] = ()
    """Redaction rules for its calls."""
    rule_version: int | None = UNREAD
    """Version of the rules; None if there never were any."""
    terms: Terms = NO_TERMS
    """Its prices and usage limits."""
    under_way: int = 0
    """Calls in this process that aren't stored yet."""
    renewal: asyncio.Task[None] | None = None
    """What keeps the session open meanwhile."""
    busy_until: float = 0.0
    """Until when its row counts as locked, by time.monotonic: its calls are kept in files rather than each waiting for it."""

    @property
    def is_complete(self) -> bool:
        """Whether its calls and rules were ever read."""
        return self.rule_version != UNREAD

    def refuse_beyond_budget(self) -> None:
        """Check the budget by this process's knowledge. Raises BudgetSpent."""
        session = self.session
        if session.max_calls is not None and len(self.graph.nodes) + self.under_way >= session.max_calls:
            raise BudgetSpent(f"This session may have {session.max_calls:,} calls, and has used them up.")
        used = max(self.graph.tokens, session.tokens_used)
        if session.max_tokens is not None and used >= session.max_tokens:
            raise BudgetSpent(f"This session may use {session.max_tokens:,} tokens, and has used {used:,}.")

    async def update(self, database: LoopDatabase) -> bool:
        """Read what has changed, including the calls that other processes stored. False if its key isn't valid any more.

        Everything except state, expiry, costs, and failover was fixed when it was opened.
        """
        since = _id_shortly_before(last) if (last := self.graph.last) else FIRST_ID
        rows = _NEWS.read(await database.rows(*_NEWS.sql(digest=self.session.key_digest, since=since)))
        if not rows:
            return False
        state, expires_at, tokens_used, policy_id, rule_version = rows[0][:5]
        if policy_id != self.session.policy_id:  # another process moved it to the champion
            moved = await _session_of(self.session.key_digest, database)
            if moved is None:
                return False
            moved.tokens_used = self.session.tokens_used
            self.session = moved
        session = self.session
        session.state, session.expires_at = state, expires_at
        session.tokens_used = max(tokens_used, session.tokens_used)
        if rule_version != self.rule_version:
            rules = await in_database(rules_of, session.workspace_id, rule_version) if rule_version else ()
            self.rules, self.rule_version = rules, rule_version
        await self.read_terms()
        for status, is_retry, *columns in (row[5:] for row in rows if row[5] is not None):
            if status == Call.Status.OK:
                self.graph.add([Node.of_columns(*columns)])
            elif not is_retry:
                call_id, body_digest = columns[:2]
                self.graph.note_failure(bytes(body_digest), call_id)
        return True

    async def read_terms(self) -> None:
        """Read the prices and limits for its current policy."""
        of_session = (self.session.workspace_id, self.session.policy_id, self.session.endpoint_id)
        terms = cached_terms(*of_session)
        self.terms = await in_database(terms_of, *of_session) if terms is None else terms


async def session_to_cache(digest: str, database: LoopDatabase) -> CachedSession | None:
    """The session of a key, still to be updated; None if the key isn't valid."""
    session = await _session_of(digest, database)
    return None if session is None else CachedSession(session, CallGraph(_digest_key(session)))


async def _session_of(digest: str, database: LoopDatabase) -> Session | None:
    return next(_BY_KEY.read(await database.rows(*_BY_KEY.sql(digest=digest))), None)


def _by_key(digest: str) -> QuerySet[Session]:
    valid = Session.objects.with_valid_keys().filter(key_digest=digest)
    return valid.select_related("endpoint", "policy", "split")


def _news(digest: str, since: UUID) -> QuerySet[Session, Any]:
    """The session's columns that may have changed, with each of its calls since then, or without one."""
    version = RuleVersion.objects.filter(pk=OuterRef("workspace")).values("number")
    recent = FilteredRelation("calls", condition=Q(calls__id__gte=since))
    valid = Session.objects.with_valid_keys().filter(key_digest=digest).annotate(recent=recent)
    of_calls = (f"recent__{column}" for column in ("status", "is_retry", *NODE_COLUMNS))
    return valid.values_list("state", "expires_at", "tokens_used", "policy_id", Subquery(version), *of_calls)


_BY_KEY, _NEWS = CompiledQuery(_by_key, digest=str), CompiledRows(_news, digest=str, since=UUID)


def _digest_key(session: Session) -> bytes:
    """The key of the digests in a session's call graph. It isn't in the database, so whoever has only that can't verify guesses."""
    return salted_hmac("gateway digests", str(session.pk), algorithm="sha256").digest()


def _id_shortly_before(call_id: UUID) -> UUID:
    milliseconds = (call_id.int >> 80) - int(OVERLAP.total_seconds() * 1000)
    return UUID(int=max(milliseconds, 0) << 80)
