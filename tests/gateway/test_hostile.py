"""Hostile requests and replies: they cost others nothing, and every call of a session is recorded."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from django.utils.timezone import now

from apps.accounts.models import ApiToken, Membership, Role
from apps.common.ids import new_id
from apps.gateway import asgi, session_trajectories, sessions
from apps.gateway.dialects.anthropic_messages import AnthropicMessages
from apps.gateway.dialects.chat_completions import ChatCompletions
from apps.gateway.dialects.dialect import MAX_ITEMS, Dialect, ReplyContext
from apps.gateway.dialects.openai_responses import OpenAIResponses
from apps.gateway.exchange import MAX_AFTER_END
from apps.gateway.kept_values import NoEvent
from apps.gateway.models import Call
from apps.gateway.streamed_reply import MAX_CHOICES, StreamedReply, events_in
from contract import jsontext
from contract.outgoing.replies import LARGEST_ERROR
from tests import factories
from tests.gateway import spellings
from tests.gateway.conftest import Agent
from tests.gateway.upstream import Upstream, calls, says

ASK = {"role": "user", "content": "Where is the lamp?"}
DEEP = '{"a":' + "[" * 400 + "]" * 400 + "}"


def code_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_a_stranger_is_refused_before_their_request_is_read(gateway_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "body_of", None)
    for key in ("rs_unknown", "rt_unknown"):
        response = httpx.post(f"{gateway_url}/chat/completions", content=b"[]", headers={"x-api-key": key})
        assert code_of(response) == (401, "invalid_api_key")


def test_a_request_of_very_many_values_is_refused_before_it_is_parsed(agent: Agent, upstream: Upstream) -> None:
    body = b'{"messages": [' + b"{}," * asgi.MAX_VALUES + b"{}]}"
    assert code_of(agent.http.post("chat/completions", content=body)) == (413, "request_too_large")
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("body", "has_more"),
    [
        (b"[1, 2, 3, 4, 5, 6, 7, 8, 9]", True),
        (b'["a, b, c, d, e, f, [, [, {, {, g, h, i"]', False),
        (b'["\\", \\", \\", \\", \\", \\", \\", \\", \\", \\\\"]', False),
        (b'{"a": {"b": {"c": {"d": {"e": {"f": {}}}}}}}', True),
        (b'"' + b'\\"' * 50_000, False),
    ],
)
def test_values_are_counted_outside_of_strings(body: bytes, has_more: bool) -> None:
    assert jsontext.has_more_values(body, 6) == has_more


def test_the_key_of_a_session_ends_with_the_rights_of_whoever_opened_it(
    gateway_url: str, open_session: Callable[..., sessions.NewSession], researcher: Membership
) -> None:
    factories.token(researcher)
    token = ApiToken.objects.get()
    with (
        (by_token := Agent(gateway_url, open_session(token=token))).http,
        (other := Agent(gateway_url, open_session())).http,
    ):
        assert by_token.ask(ASK).status_code == other.ask(ASK).status_code == 200
        ApiToken.objects.update(revoked_at=now())
        assert code_of(by_token.ask(ASK)) == (401, "invalid_api_key")
        assert other.ask(ASK).status_code == 200
        Membership.objects.filter(pk=researcher.pk).update(role=Role.REVIEWER)
        assert code_of(other.ask(ASK)) == (401, "invalid_api_key")


def test_of_many_calls_at_once_no_more_pass_than_the_budget_has(
    gateway_url: str, open_session: Callable[..., sessions.NewSession], upstream: Upstream
) -> None:
    def slowly(body: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.3)
        return says("Done.")(body)

    upstream.replies = [slowly]
    with (agent := Agent(gateway_url, open_session(max_calls=2))).http, ThreadPoolExecutor(16) as threads:
        statuses = [*threads.map(lambda _: agent.ask(ASK).status_code, range(16))]
    assert (statuses.count(200), statuses.count(429)) == (2, 14)


def test_what_the_server_does_not_count_and_what_an_agent_breaks_off_costs_its_budget(
    gateway_url: str, open_session: Callable[..., sessions.NewSession], upstream: Upstream
) -> None:
    upstream.owner = "somebody"
    with (agent := Agent(gateway_url, open_session(max_tokens=15))).http:
        assert agent.ask(ASK, stream=True).status_code == 200  # 50 bytes of messages, and 6 pieces
        assert code_of(agent.ask(ASK, stream=True)) == (429, "budget_spent")
    upstream.seconds_a_piece, upstream.replies = 0.2, [says("Done. " * 9)]
    with (agent := Agent(gateway_url, open_session(max_calls=1))).http:
        with agent.http.stream("POST", "chat/completions", json={"messages": [ASK], "stream": True}) as response:
            next(response.iter_raw())
        assert code_of(agent.ask(ASK)) == (429, "budget_spent")


@pytest.mark.parametrize("budget", [{"max_calls": 1}, {"max_tokens": 10}])
@pytest.mark.parametrize("way", ["another form", "broken off", "deadline"])
def test_what_was_computed_costs_the_budget_although_it_cant_be_passed_on(
    gateway_url: str,
    open_session: Callable[..., sessions.NewSession],
    upstream: Upstream,
    settings: Any,
    way: str,
    budget: dict[str, int],
) -> None:
    """Otherwise, an agent could have its policy's server compute endlessly by requesting replies that the gateway can't read."""
    if way == "another form":  # vLLM takes "false" for false, and returns a complete reply
        upstream.reads_stream_as_text = True
    elif way == "broken off":
        upstream.breaks_after = 3
    else:
        settings.GATEWAY_DEADLINE_SECONDS, upstream.seconds_a_piece = 0.3, 1.0
    with (agent := Agent(gateway_url, open_session(**budget))).http:
        agent.ask(ASK, stream="false" if way == "another form" else True)
        assert Call.objects.get().status == Call.Status.FAILED
        assert code_of(agent.ask(ASK)) == (429, "budget_spent")


def test_what_the_server_refused_or_never_got_costs_nothing(
    gateway_url: str, open_session: Callable[..., sessions.NewSession], upstream: Upstream
) -> None:
    with (agent := Agent(gateway_url, open_session(max_calls=1, max_tokens=10))).http:
        upstream.status = 422
        assert [agent.ask(ASK).status_code for _ in range(3)] == [422] * 3
        upstream.status = 200
        assert agent.ask(ASK).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_arguments_nested_without_end_are_recorded_and_become_a_trajectory(
    agent: Agent, upstream: Upstream, stream: bool
) -> None:
    upstream.replies = [calls("look", DEEP)]
    assert agent.ask(ASK, stream=stream).status_code == 200
    reply = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": DEEP}}],
    }
    assert agent.ask(ASK, reply, ASK).status_code == 200
    assert Call.objects.filter(status="ok").count() == 2
    assert sessions.finish_session(session=agent.session).paths.count() > 0


@pytest.mark.parametrize("counted", ["x" * 5000, "\x00", "\ud800", [1], -5])
def test_a_call_is_recorded_however_its_tokens_were_counted(agent: Agent, upstream: Upstream, counted: Any) -> None:
    whole = upstream.completion
    usage = {"prompt_tokens": counted, "completion_tokens": 6}
    upstream.completion = lambda body, message: whole(body, message) | {"usage": usage}  # type: ignore[method-assign]
    assert agent.ask(ASK).status_code == 200
    assert Call.objects.get().untrainable == "The server counted no number of and 6 tokens, and sent 34 and 6 ids."


@pytest.mark.parametrize(
    ("logprob", "problem"), [(-1e300, "A log-probability isn't finite."), (5.0, "A log-probability is above 0.")]
)
def test_no_step_with_an_impossible_log_probability_is_trained_on(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, logprob: float, problem: str
) -> None:
    monkeypatch.setattr("tests.gateway.upstream.LOGPROB", logprob)
    agent.ask(ASK)
    assert Call.objects.get().untrainable == problem


def test_a_fault_of_ours_is_answered_in_the_protocols_form_and_recorded(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("apps.gateway.token_capture.Capture.extract", fails)
    assert code_of(agent.ask(ASK)) == (502, "upstream_away")
    assert json.loads(agent.ask(ASK, stream=True).text.split("data: ")[1])["error"]["code"] == "upstream_away"
    assert [call.status for call in Call.objects.all()] == ["failed", "failed"]


def test_a_status_that_no_protocol_has_is_a_bad_gateway(agent: Agent, upstream: Upstream) -> None:
    upstream.status = 999
    assert agent.ask(ASK).status_code == 502


def test_a_stream_of_very_many_choices_is_none() -> None:
    with pytest.raises(NoEvent):
        StreamedReply().add({"choices": [{"index": index, "delta": {}} for index in range(MAX_CHOICES + 1)]})


async def test_a_line_that_never_ends_costs_no_more_than_its_length() -> None:
    async def pieces() -> Any:
        yield b"data: "
        for _ in range(20_000):
            yield b"x" * 1000

    began = time.monotonic()
    [data] = [event async for event in events_in(pieces())]
    assert len(data) == 20_000_000
    assert time.monotonic() - began < 5  # joining it again for each chunk takes minutes


async def test_an_event_of_very_many_lines_is_none() -> None:
    async def pieces() -> Any:
        for _ in range(20):
            yield b"data:a\n" * 1000

    with pytest.raises(NoEvent):
        [event async for event in events_in(pieces())]


def test_what_comes_after_the_end_of_a_stream_without_end_is_not_waited_for(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each chunk was once appended to all those held back before it, which kept the event loop busy."""
    usual = spellings.message_events

    def pinging(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
        *events, end = usual(whole)
        yield from events
        for _ in range(1000):
            yield {"type": "ping"}
        yield end

    monkeypatch.setattr(spellings, "message_events", pinging)
    body = {"model": "any", "max_tokens": 9, "messages": [ASK], "stream": True}
    reply = agent.http.post("messages", json=body).text
    assert reply.count('{"type":"ping"}') <= MAX_AFTER_END + 1
    assert reply.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert Call.objects.get().status == Call.Status.OK


def test_a_server_that_names_an_event_in_several_lines_puts_no_other_event_into_the_stream(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = spellings.message_events

    def hostile(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
        first, *events = usual(whole)
        yield from (first, {"type": 'ping\ndata: {"type": "x"}\n\nevent: error\r'}, *events)

    monkeypatch.setattr(spellings, "message_events", hostile)
    body = {"model": "any", "max_tokens": 9, "messages": [ASK], "stream": True}
    lines = agent.http.post("messages", json=body).text.split("\n")
    assert [line for line in lines if line.startswith(("event: error", 'data: {"type": "x"}'))] == []


@pytest.mark.parametrize(
    ("speaks", "reply"),
    [
        (ChatCompletions, lambda many: {"choices": [{"message": {"tool_calls": many}}]}),
        (AnthropicMessages, lambda many: {"role": "assistant", "content": many}),
        (OpenAIResponses, lambda many: {"status": "completed", "output": many}),
    ],
)
def test_a_reply_of_very_many_items_is_none(
    speaks: type[Dialect], reply: Callable[[list[Any]], dict[str, Any]]
) -> None:
    """With 900,000 items, each page of the session took almost a minute, and ending it even longer."""
    dialect = speaks({"messages": [ASK], "input": "x"}, ReplyContext(new_id(), "any", 0, is_blind=False))
    dialect.request(model="served", sampling={}, supports_token_ids=False)
    dialect.process_reply(reply([{"type": "text", "text": ""}] * MAX_ITEMS))
    many = reply([{"type": "text", "text": ""}] * (MAX_ITEMS + 1))
    with pytest.raises(NoEvent):
        dialect.process_reply(many)
    if speaks is OpenAIResponses:  # the other protocols' items are counted as they arrive
        with pytest.raises(NoEvent):
            dialect.process_chunk({"type": "response.completed", "response": many})


def test_an_error_too_long_for_words_is_not_read(agent: Agent, upstream: Upstream) -> None:
    """64 MB of brackets once took the event loop minutes, three times over."""
    upstream.status = 400
    more = b"[" + b"[]," * (LARGEST_ERROR // 3) + b"[]]"
    upstream.error = b'{"error": {"message": "No.", "type": "invalid_request_error"}, "more": ' + more + b"}"
    response = agent.ask(ASK)
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "The policy's server gave no reply: it refused the request (400)."


@pytest.mark.parametrize("bound", [("MAX_STEPS", 5), ("MAX_PATHS", 2), ("MAX_CHARACTERS", 500)])
def test_a_chat_that_branches_without_end_becomes_only_so_many_trajectories(
    monkeypatch: pytest.MonkeyPatch, db: None, bound: tuple[str, int]
) -> None:
    monkeypatch.setattr(session_trajectories, *bound)
    session = factories.session(messages=[says("Done.")({})] * 3)
    tip = Call.objects.order_by("-id")[0]
    for number in range(4):  # four more paths of four steps each
        Call.objects.create(
            **{
                name: getattr(tip, name)
                for name in ("session", "status", "request", "messages", "reply", "http_status")
            },
            **{
                name: getattr(tip, name)
                for name in ("untrainable", "chat_digest", "tools_digest", "seconds", "began_at")
            },
            parent=tip,
            body_digest=bytes([99, number]) * 8,
        )
    sessions.finish_session(session=session)
    session.refresh_from_db()
    assert session.paths.count() == 2
    assert session.problem == "Its chat branches too often: 2 of its shorter paths didn't become trajectories."
