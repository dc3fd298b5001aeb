"""Streams are passed on as they arrive, and stored before their end is passed on."""

import json
import time
from typing import Any

import httpx
import pytest

from apps.gateway.models import Call, Join
from apps.gateway.session_trajectories import ids_from
from apps.gateway.streamed_reply import StreamedReply
from tests.gateway.conftest import Agent
from tests.gateway.upstream import END, Upstream, calls, says

ASK = {"role": "user", "content": "Where is the lamp?"}


def pieces_of(text: str) -> list[dict[str, Any]]:
    """The chunks of a stream that ended normally."""
    *chunks, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(chunk.removeprefix("data: ")) for chunk in chunks]


def test_a_stream_comes_piece_by_piece_under_the_name_that_was_asked_for(agent: Agent) -> None:
    chunks = pieces_of(agent.ask(ASK, stream=True).text)
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == "Done."
    assert {chunk["model"] for chunk in chunks} == {"whatever"}
    assert not any("usage" in chunk or "prompt_token_ids" in chunk for chunk in chunks)
    assert not any("token_ids" in chunk["choices"][0] for chunk in chunks)


def test_usage_is_streamed_to_who_asks_for_it(agent: Agent) -> None:
    *_, last = pieces_of(agent.ask(ASK, stream=True, stream_options={"include_usage": True}).text)
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 6)


def test_a_streamed_reply_is_stored_as_the_one_that_it_amounts_to(agent: Agent, upstream: Upstream) -> None:
    upstream.replies = [calls("look", '{"at": "shelf"}')]
    agent.ask(ASK, stream=True)
    streamed = Call.objects.get()
    agent.ask(ASK)
    whole = Call.objects.exclude(pk=streamed.pk).get()
    assert streamed.reply["choices"][0]["message"]["tool_calls"][0]["function"] == {
        "name": "look",
        "arguments": '{"at": "shelf"}',
    }
    assert bytes(streamed.chat_digest) == bytes(whole.chat_digest)
    assert bytes(streamed.sequence_digest or b"") == bytes(whole.sequence_digest or b"")
    assert ids_from(streamed.sampled_ids).tolist() == [*b'look({"at": "shelf"})', END]
    assert streamed.untrainable == ""
    assert streamed.first_seconds is not None


@pytest.mark.parametrize("index", [{"index": 0}, {}])
def test_calls_that_a_server_gives_the_same_index_stay_apart(index: dict[str, int]) -> None:
    """Ids in later parts don't begin a call: some servers send a new one with each part."""
    reply = StreamedReply()
    for identifier, name, arguments in (("a", "look", '{"at"'), ("a2", None, ": 1}"), ("b", "take", "{}")):
        call = {"id": identifier, "function": {"name": name, "arguments": arguments}}
        reply.add({"choices": [{"index": 0, "delta": {"tool_calls": [{**index, **call}]}}]})
    made = reply.completion()["choices"][0]["message"]["tool_calls"]
    assert [call["function"] for call in made] == [
        {"name": "look", "arguments": '{"at": 1}'},
        {"name": "take", "arguments": "{}"},
    ]


def test_a_streamed_reply_says_what_cut_it() -> None:
    reply = StreamedReply()
    reply.add({"choices": [{"index": 0, "delta": {"content": "look"}, "finish_reason": None}]})
    reply.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "\n"}]})
    [choice] = reply.completion()["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "\n")


def test_a_custom_tools_call_is_put_together() -> None:
    reply = StreamedReply()
    for part in ({"id": "c", "type": "custom", "custom": {"name": "run", "input": ""}}, {"custom": {"input": "1"}}):
        reply.add({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **part}]}}]})
    [made] = reply.completion()["choices"][0]["message"]["tool_calls"]
    assert made == {"index": 0, "id": "c", "type": "custom", "custom": {"name": "run", "input": "1"}}


def test_what_a_server_streams_in_parts_is_put_together() -> None:
    reply = StreamedReply()
    for delta in (
        {"function_call": {"name": "look", "arguments": ""}, "annotations": [{"url": "a"}]},
        {"function_call": {"arguments": '{"at"'}},
        {"function_call": {"arguments": ": 1}"}, "annotations": [{"url": "b"}]},
    ):
        reply.add({"choices": [{"index": 0, "delta": delta}]})
    message = reply.completion()["choices"][0]["message"]
    assert message["function_call"] == {"name": "look", "arguments": '{"at": 1}'}
    assert message["annotations"] == [{"url": "a"}, {"url": "b"}]


def test_a_streamed_turn_is_continued_by_tokens(agent: Agent) -> None:
    agent.ask(ASK, stream=True)
    agent.ask(ASK, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}, stream=True)
    before, call = Call.objects.order_by("id")
    assert (call.parent_id, call.join) == (before.pk, Join.TOKENS)


def test_the_end_of_a_stream_comes_only_when_the_call_is_stored(agent: Agent, upstream: Upstream) -> None:
    upstream.replies = [says("Hi")]
    seen: list[int] = []
    body = {"model": "m", "messages": [ASK], "stream": True}
    with agent.http.stream("POST", "chat/completions", json=body) as response:
        for line in response.iter_lines():
            if '"finish_reason":"stop"' in line or "[DONE]" in line:
                seen.append(Call.objects.count())
    assert seen == [1, 1]


def test_an_agent_that_goes_away_ends_the_stream_upstream_and_is_noted(agent: Agent, upstream: Upstream) -> None:
    upstream.replies, upstream.seconds_a_piece = [says("x" * 500)], 0.02
    body = {"model": "m", "messages": [ASK], "stream": True}
    with agent.http.stream("POST", "chat/completions", json=body) as response:
        next(response.iter_lines())
    assert upstream.gone.wait(10)
    call = waited_for_call()
    assert (call.status, call.error, call.reply) == ("cancelled", "The agent disconnected.", None)


def test_an_agent_that_goes_away_before_the_reply_is_noted_too(agent: Agent, upstream: Upstream) -> None:
    def slowly(body: dict[str, Any]) -> dict[str, Any]:
        time.sleep(1)
        return {"role": "assistant", "content": "late"}

    upstream.replies = [slowly]
    with pytest.raises(httpx.ReadTimeout):
        agent.http.post("chat/completions", json={"model": "m", "messages": [ASK]}, timeout=0.3)
    assert waited_for_call().status == "cancelled"


def test_a_stream_that_breaks_off_says_so_to_the_agent_and_is_no_reply(agent: Agent, upstream: Upstream) -> None:
    upstream.breaks_after = 3
    *_, last, rest = agent.ask(ASK, stream=True).text.split("\n\n")
    error = json.loads(last.removeprefix("data: "))["error"]
    assert rest == ""
    assert error["message"] == "The policy's server ended its reply before it was complete."
    call = Call.objects.get()
    assert (call.status, call.reply) == ("failed", None)


def test_a_retried_stream_is_streamed_again_and_sampled_once(agent: Agent, upstream: Upstream) -> None:
    upstream.replies = [calls("look", "{}")]
    agent.ask(ASK, stream=True)
    again = agent.ask(ASK, stream=True, headers={"x-stainless-retry-count": "2"})
    first, last = pieces_of(again.text)
    assert first["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "look"
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    assert len(upstream.requests) == 1


def waited_for_call() -> Call:
    for _ in range(200):
        if call := Call.objects.first():
            return call
        time.sleep(0.05)
    raise AssertionError("no call was stored")


def test_a_stream_beyond_the_deadline_says_so(agent: Agent, upstream: Upstream, settings: Any) -> None:
    settings.GATEWAY_DEADLINE_SECONDS, upstream.seconds_a_piece = 0.5, 0.2
    assert "upstream_deadline" in agent.ask(ASK, stream=True).text
    call = Call.objects.get()
    assert (call.status, call.http_status) == (Call.Status.FAILED, 504)
    assert call.error.startswith("The policy's server took longer than 0.5 s.")
