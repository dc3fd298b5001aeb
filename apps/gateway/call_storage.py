"""Stores calls in the database: usually in one statement, otherwise in threads of the gateway's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from django.db import close_old_connections, connection, transaction
from django.db.models import F, JSONField
from django.db.models.functions import Greatest

from apps.common.query_time_limit import lock_time_limit
from apps.common.turns import Turns
from apps.gateway.loop_database import LOCK_MILLISECONDS, LoopDatabase
from apps.gateway.models import Call, Session, expiry_after
from apps.gateway.trajectory_storage import store_trajectories

P = ParamSpec("P")
T = TypeVar("T")

THREADS = ThreadPoolExecutor(4, thread_name_prefix="gateway-database")
TURNS = Turns(2)
"""Threads that one workspace may use to change sessions: ending a large session locks its row for seconds, and its calls wait for the lock."""
COUNT = (
    "UPDATE gateway_session SET calls_begun = calls_begun + 1 WHERE id = %s AND calls_begun < max_calls RETURNING id"
)
RENEW = f"UPDATE gateway_session SET expires_at = %s WHERE id = %s AND state = '{Session.State.OPEN}' RETURNING id"
COLUMNS = Call._meta.concrete_fields
ATTRIBUTES = [(field.attname, field if isinstance(field, JSONField) else None) for field in COLUMNS]
"""Names, and the fields of JSON: psycopg converts everything else by itself."""
STORE = f"""
    WITH new AS (
        SELECT 1 WHERE NOT EXISTS (SELECT FROM gateway_call WHERE id = %s)
    ), open AS (
        UPDATE gateway_session
        SET expires_at = %s,
            tokens_used = tokens_used + %s * (SELECT count(*) FROM new),
            calls_begun = greatest(calls_begun - %s * (SELECT count(*) FROM new), 0)
        WHERE id = %s AND state = '{Session.State.OPEN}'
        RETURNING id
    ), stored AS (
        INSERT INTO gateway_call ({", ".join(f'"{field.column}"' for field in COLUMNS)})
        SELECT {", ".join(["%s"] * len(COLUMNS))} FROM open
        ON CONFLICT DO NOTHING
    )
    SELECT id FROM open"""


async def in_database(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in one of the gateway's threads."""
    work = partial(copy_context().run, _with_connection, partial(function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(THREADS, work)


def _with_connection(work: Callable[[], T]) -> T:
    """Run `work` with the connection handling that Django does around a request."""
    close_old_connections()
    try:
        return work()
    finally:
        close_old_connections()


async def in_turn(session: Session, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that may wait for the session's row, in at most a few of the gateway's threads for each workspace."""
    async with TURNS.of(session.workspace_id):
        return await in_database(function, *args, **kwargs)


async def count_call(database: LoopDatabase, session: Session) -> bool:
    """Count a call if the session's limit allows it; returns whether it does."""
    async with TURNS.of(session.workspace_id):
        return bool(await database.rows(COUNT, [session.pk]))


async def renew(database: LoopDatabase, session: Session) -> bool:
    """Move an open session's expiry as its activity does; returns whether it's open."""
    async with TURNS.of(session.workspace_id):
        return bool(await database.rows(RENEW, [expiry_after(session.idle_seconds), session.pk]))


async def store_in_open_session(database: LoopDatabase, call: Call, tokens: int, *, is_free: bool) -> bool:
    """Store a call, idempotently, if its session is still open; returns whether it is. Otherwise, see `store`.

    It waits for whoever is finishing the session. is_free: doesn't count against the session's calls.
    """
    columns = [
        getattr(call, name) if json is None else json.get_db_prep_save(getattr(call, name), connection)
        for name, json in ATTRIBUTES
    ]
    session = call.session
    params = [call.pk, expiry_after(session.idle_seconds), tokens, int(is_free), session.pk, *columns]
    async with TURNS.of(session.workspace_id):
        return bool(await database.rows(STORE, params))


@lock_time_limit(LOCK_MILLISECONDS)
def store(call: Call, tokens: int = 0, *, is_free: bool) -> None:
    """Store a call, idempotently. If the session has ended meanwhile, its trajectories are completed; if it was deleted, nothing is stored.

    is_free: doesn't count against the session's calls.
    """
    try:
        session = call.session
    except Session.DoesNotExist:  # it was deleted while the call was in a file
        return
    is_new = not Call.objects.filter(pk=call.pk).exists()
    Call.objects.bulk_create([call], ignore_conflicts=True)
    # This waits for whoever is finishing the session, and then changes nothing, since the outcome is fixed.
    news: dict[str, Any] = {"expires_at": expiry_after(session.idle_seconds)}
    if is_new:
        news["tokens_used"] = F("tokens_used") + tokens
    if is_new and is_free:
        news["calls_begun"] = Greatest(F("calls_begun") - 1, 0)
    if not Session.objects.open().filter(pk=session.pk).update(**news):
        ended = Session.objects.select_for_update().filter(pk=session.pk).first()
        if ended is None:
            transaction.set_rollback(True)
        else:
            store_trajectories(ended)
