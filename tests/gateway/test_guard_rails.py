"""What the gateway refuses, what it passes on unchanged, and what it does when a service that it depends on is down."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from django.db import OperationalError, transaction

from apps.gateway import asgi, recorder, sessions, spool
from apps.gateway.loop_database import LoopDatabase
from apps.gateway.models import Call, Session
from tests.gateway.conftest import Agent
from tests.gateway.upstream import Upstream

ASK = {"role": "user", "content": "Where is the lamp?"}


def fails(*_: object) -> None:
    raise OperationalError("connection refused")


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_a_key_that_opens_nothing_is_refused_as_openai_refuses_it(gateway_url: str) -> None:
    with httpx.Client(base_url=gateway_url) as http:
        for headers in (
            {},
            {"Authorization": "Bearer rs_nothing"},
            {"Authorization": "Basic eDp5"},
            {"x-api-key": "rs_no"},
        ):
            response = http.post("chat/completions", json={"messages": [ASK]}, headers=headers)
            assert error_of(response) == (401, "invalid_api_key")


def test_a_sessions_key_leads_to_its_policy_alone(agent: Agent) -> None:
    assert [card["id"] for card in agent.http.get("models").json()["data"]] == ["clerk"]


def test_calls_of_a_session_that_ends_for_long_hold_up_nobody_else(
    agent: Agent, open_session: Callable[..., sessions.NewSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their calls are kept in files until the row is free, since the gateway has few threads for the database."""
    monkeypatch.setattr(spool, "FLUSH_SECONDS", 0.05)
    assert agent.reply(ASK)
    with httpx.Client(base_url=agent.http.base_url, timeout=30) as http, ThreadPoolExecutor(8) as threads:
        key = {"Authorization": f"Bearer {open_session().key}"}
        with transaction.atomic():
            Session.objects.select_for_update().get(pk=agent.session.pk)
            sent = [threads.submit(agent.ask, {"role": "user", "content": str(number)}) for number in range(8)]
            while not asgi.recorder.spool.folder.is_dir():
                time.sleep(0.01)
            assert http.post("chat/completions", json={"messages": [ASK]}, headers=key).status_code == 200
            assert {future.result().status_code for future in sent} == {200}
            assert Call.objects.filter(session=agent.session).count() == 1
    while Call.objects.filter(session=agent.session).count() < 9:
        time.sleep(0.01)
    assert not [*asgi.recorder.spool.folder.glob("*.refused")]


def test_after_the_end_of_a_session_its_key_is_refused(agent: Agent, upstream: Upstream) -> None:
    sessions.finish_session(session=agent.session, success=False)
    response = agent.ask(ASK)
    assert error_of(response) == (403, "session_ended")
    assert response.json()["error"]["message"] == (
        "This session is finished. Create another one with POST /api/v1/sessions."
    )
    assert upstream.requests == []


def test_budgets_of_calls_and_of_tokens_end_a_session(
    gateway_url: str, open_session: Callable[..., sessions.NewSession]
) -> None:
    for budget in ({"max_calls": 1}, {"max_tokens": 30}):  # a call costs 34 + 6 tokens
        with (agent := Agent(gateway_url, open_session(**budget))).http:
            assert agent.ask(ASK).status_code == 200
            assert error_of(agent.ask(ASK)) == (429, "budget_spent")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"messages": []}', b'{"messages": ["hi"]}', b'{"messages": {"role": "user"}}']
)
def test_what_is_no_chat_is_refused_and_never_passed_on(agent: Agent, upstream: Upstream, body: bytes) -> None:
    assert error_of(agent.http.post("chat/completions", content=body)) == (400, "bad_request")
    assert upstream.requests == []


def test_a_body_that_never_ends_is_refused(agent: Agent, settings: Any) -> None:
    settings.GATEWAY_MAX_BYTES = 1 << 20
    assert error_of(agent.ask({"role": "user", "content": "x" * (2 << 20)})) == (413, "request_too_large")


def test_other_addresses_say_what_there_is(agent: Agent) -> None:
    for method, path in (("POST", "completions"), ("GET", "chat/completions"), ("POST", "models")):
        assert error_of(agent.http.request(method, path, json={})) == (404, "not_supported")


def test_an_error_of_the_server_comes_through_unchanged(agent: Agent, upstream: Upstream) -> None:
    upstream.status = 422
    response = agent.ask(ASK)
    assert (response.status_code, response.content) == (422, upstream.error)
    call = Call.objects.get()
    assert (call.status, call.http_status, call.error) == ("failed", 422, "it refused the request (422): too hot")


def test_what_something_else_says_at_that_address_is_nobodys_to_read(agent: Agent, upstream: Upstream) -> None:
    upstream.status, upstream.error = 500, b"<html>root:x:0:0 the secrets of another server</html>"
    response = agent.ask(ASK)
    assert response.status_code == 500
    assert b"secrets" not in response.content
    assert "secrets" not in Call.objects.get().error


def test_a_reply_that_is_no_chat_completion_is_a_bad_gateway(agent: Agent, upstream: Upstream) -> None:
    upstream.completion = lambda body, message: {"secret": 1}  # type: ignore[method-assign]
    response = agent.ask(ASK)
    assert error_of(response) == (502, "upstream_away")
    assert "secret" not in response.text


def test_a_server_that_is_away_is_told_to_the_agent_and_noted(agent: Agent, upstream: Upstream) -> None:
    upstream.http.server_close()
    upstream.http.shutdown()
    assert error_of(agent.ask(ASK)) == (502, "upstream_away")
    assert Call.objects.get().http_status == 502


def test_half_of_what_libraries_send_by_mistake_is_left_out(agent: Agent, upstream: Upstream) -> None:
    agent.ask(ASK, tools=[], tool_choice="auto", parallel_tool_calls=True, stream_options={"include_usage": True})
    assert not {"tools", "tool_choice", "parallel_tool_calls", "stream_options"} & upstream.requests[0].keys()


def test_while_the_database_is_away_calls_pass_and_are_stored_afterwards(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.reply(ASK)
    monkeypatch.setattr(spool, "FLUSH_SECONDS", 0.05)
    with monkeypatch.context() as patch:
        patch.setattr(LoopDatabase, "rows", fails)
        patch.setattr(spool, "store_spooled", fails)
        assert agent.reply(ASK, {"role": "assistant", "content": "Done."}, ASK)["content"] == "Done."
        assert Call.objects.count() == 1
        assert len([*asgi.recorder.spool.folder.glob("*.json")]) == 1
    for _ in range(200):
        if Call.objects.count() == 2:
            break
        time.sleep(0.05)
    before, call = Call.objects.order_by("id")
    assert (call.parent_id, call.join, call.untrainable) == (before.pk, "tokens", "")
    assert not [*asgi.recorder.spool.folder.iterdir()]


def test_a_call_with_a_lone_surrogate_is_kept_in_a_file_too(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.reply(ASK)
    monkeypatch.setattr(spool, "FLUSH_SECONDS", 0.05)
    body = json.dumps({"messages": [ASK], "user": "\ud83d"})  # as ASCII, which can encode it
    with monkeypatch.context() as patch:
        patch.setattr(LoopDatabase, "rows", fails)
        patch.setattr(spool, "store_spooled", fails)
        assert agent.http.post("chat/completions", content=body).status_code == 200
    while Call.objects.count() < 2:
        time.sleep(0.01)
    assert Call.objects.latest("id").request == {"user": "\ud83d"}


def test_the_call_after_one_that_could_be_kept_nowhere_is_stored_with_its_whole_chat(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = agent.reply(ASK)
    more = {"role": "user", "content": "And the key?"}
    asgi.recorder.spool.folder.write_text("in the way of the folder")
    with monkeypatch.context() as patch:
        patch.setattr(LoopDatabase, "rows", fails)
        second = agent.reply(ASK, first, more)
    agent.reply(ASK, first, more, second, ASK)
    before, call = Call.objects.order_by("id")
    assert (call.parent_id, call.messages) == (before.pk, [more, second, ASK])


def test_an_installation_can_let_no_call_pass_unrecorded(
    agent: Agent, settings: Any, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GATEWAY_WITHOUT_DATABASE = "refuse"
    agent.reply(ASK)

    monkeypatch.setattr(LoopDatabase, "rows", fails)
    assert error_of(agent.ask(ASK)) == (503, "recorder_away")
    assert len(upstream.requests) == 1


def test_two_processes_know_each_others_calls(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    first = agent.reply(ASK)
    monkeypatch.setattr(
        asgi, "recorder", recorder.Recorder(asgi.recorder.spool.folder)
    )  # another process has its own cache
    agent.reply(ASK, first, {"role": "user", "content": "Thanks."})
    before, call = Call.objects.order_by("id")
    assert call.parent_id == before.pk


def test_a_reply_too_strange_to_be_a_message_is_kept_as_it_came(agent: Agent, upstream: Upstream) -> None:
    upstream.replies = [lambda body: {"role": "assistant", "content": "ok", "tool_calls": "none today"}]
    agent.ask(ASK)
    sessions.finish_session(session=agent.session)
    trajectory = agent.session.paths.get().trajectory
    assert "none today" in json.dumps(trajectory.steps.get().message)


def test_a_chat_nested_too_deeply_for_a_trajectory_is_told_and_nothing_fails(agent: Agent) -> None:
    deep: Any = "end"
    for _ in range(249):  # as deep as a request may be
        deep = [deep]
    content: Any = [{"type": "text", "text": "hi", "deep": deep}]
    agent.ask({"role": "user", "content": content})
    ended = sessions.finish_session(session=agent.session, success=True)
    assert ended.state == "finished"
    ended.refresh_from_db()
    assert ended.problem == "A path of 1 calls couldn't become a trajectory: Nested deeper than 250 levels."
    assert ended.paths.count() == 0
