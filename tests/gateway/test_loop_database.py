"""Statements that the gateway's event loop runs itself."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import ProgrammingError, transaction

from apps.common.query_time_limit import is_locked
from apps.gateway import call_storage, loop_database, models, sessions
from apps.gateway.call_storage import store_in_open_session
from apps.gateway.loop_database import LoopDatabase
from apps.gateway.models import Call, Session
from tests.gateway.conftest import Agent

ASK = {"role": "user", "content": "Where is the lamp?"}

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_connection_that_the_server_closed_is_replaced() -> None:
    database = LoopDatabase()
    [(first,)] = await database.rows("SELECT pg_backend_pid()", [])
    assert await database.rows("SELECT pg_backend_pid()", []) == [(first,)]
    other = LoopDatabase()
    await other.rows("SELECT pg_terminate_backend(%s::int)", [first])
    while await other.rows("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [first]):
        await asyncio.sleep(0.01)
    [(second,)] = await database.rows("SELECT pg_backend_pid()", [])
    assert second != first


async def test_statements_are_prepared_once() -> None:
    database = LoopDatabase()
    for number in range(3):
        assert await database.rows("SELECT %s::bigint + 1", [number]) == [(number + 1,)]
    prepared = await database.rows("SELECT statement FROM pg_prepared_statements", [])
    assert [statement for (statement,) in prepared if "bigint" in statement] == ["SELECT $1::bigint + 1"]


async def test_errors_are_djangos_and_the_connection_is_used_again() -> None:
    database = LoopDatabase()
    [(pid,)] = await database.rows("SELECT pg_backend_pid()", [])
    with pytest.raises(ProgrammingError):
        await database.rows("SELECT 1 FROM nowhere", [])
    assert await database.rows("SELECT pg_backend_pid()", []) == [(pid,)]


async def test_an_interrupted_statement_takes_its_connection_with_it() -> None:
    database = LoopDatabase()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await database.rows("SELECT pg_sleep(30)", [])
    assert await database.rows("SELECT 1", []) == [(1,)]


def test_a_locked_row_is_not_waited_for_long(
    open_session: Callable[..., sessions.NewSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_database, "LOCK_MILLISECONDS", 50)
    session = open_session(max_calls=2).session
    with transaction.atomic():
        Session.objects.select_for_update().get(pk=session.pk)
        with pytest.raises(Exception, match="lock timeout") as refused:
            asyncio.run(call_storage.count_call(LoopDatabase(), session))
    assert is_locked(refused.value)


def test_a_call_takes_two_statements_and_no_thread(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = agent.reply(ASK)
    statements: list[str] = []
    run = LoopDatabase.rows

    async def counted(self: LoopDatabase, statement: str, params: list[Any]) -> Any:
        statements.append(statement.split()[0])
        return await run(self, statement, params)

    def used(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(LoopDatabase, "rows", counted)
    monkeypatch.setattr("apps.gateway.cached_session.in_database", used)
    monkeypatch.setattr("apps.gateway.recorder.in_turn", used)
    agent.reply(ASK, reply, ASK)
    assert statements == ["SELECT", "WITH"]
    assert Call.objects.count() == 2


def test_a_sessions_expiry_moves_in_steps_and_never_before_its_idle_time(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between steps, PostgreSQL needs no new entries in the table's indexes."""
    moments = [4_000_000_000 + seconds for seconds in (320, 321, 679, 680, 681)]
    expiries = []
    for moment in moments:
        monkeypatch.setattr(models, "time", SimpleNamespace(time=lambda moment=moment: moment))
        agent.reply(ASK)
        expiries.append(Session.objects.get().expires_at.timestamp())
    idle = [expiry - moment for expiry, moment in zip(expiries, moments, strict=True)]
    assert all(3600 < seconds <= 3960 for seconds in idle)
    assert len(set(expiries)) == 2


def test_a_call_is_stored_once_and_only_while_its_session_is_open(
    open_session: Callable[..., sessions.NewSession],
) -> None:
    session = open_session().session
    columns = {"session": session, "request": {}, "messages": [], "http_status": 200, "seconds": 0.5}
    columns |= {
        "status": "failed",
        "body_digest": b"b",
        "tools_digest": b"t",
        "chat_digest": b"c",
        "began_at": "2026-01-01T00:00Z",
    }
    call, late = Call(**columns), Call(**columns)
    for _ in range(2):
        assert asyncio.run(store_in_open_session(LoopDatabase(), call, 5, is_free=False))
    call_storage.store(call, 5, is_free=False)
    assert [row.pk for row in Call.objects.all()] == [call.pk]
    session.refresh_from_db()
    assert session.tokens_used == 5
    sessions.finish_session(session=session, success=True)
    assert not asyncio.run(store_in_open_session(LoopDatabase(), late, 5, is_free=False))
    assert Call.objects.count() == 1
