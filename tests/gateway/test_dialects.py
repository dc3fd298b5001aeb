"""Agents that use Anthropic's Messages or OpenAI's Responses: the replies that they get through the gateway, and what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from apps.accounts.models import Membership
from apps.gateway import sessions
from apps.gateway.dialects.anthropic_messages import AnthropicMessages, StreamedMessage
from apps.gateway.dialects.chat_completions import ChatCompletions
from apps.gateway.dialects.dialect import Dialect, ReplyContext, named_event
from apps.gateway.dialects.openai_responses import OpenAIResponses
from apps.gateway.dialects.steps import context_of, reply_of
from apps.gateway.models import Call, Join, Path
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import open_split_session
from apps.redaction.rules import add_rule
from contract import jsontext
from contract.trajectory import Step
from tests.gateway import spellings
from tests.gateway.conftest import Agent
from tests.gateway.splits.conftest import Arms, arms, split_of  # noqa: F401  # fixtures
from tests.gateway.upstream import Upstream, calls, says

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
LOOK = {"type": "object", "properties": {"at": {"type": "string"}}}
OFFERED = {"type": "function", "function": {"name": "look", "description": "", "parameters": LOOK}}
REQUESTS: dict[str, dict[str, Any]] = {
    "messages": {
        "system": [{"type": "text", "text": "You look.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Where is the lamp?"}]}],
        "max_tokens": 99,
        "tools": [{"name": "look", "input_schema": LOOK}],
    },
    "responses": {
        "instructions": "You look.",
        "input": "Where is the lamp?",
        "tools": [{"type": "function", "name": "look", "description": "", "parameters": LOOK}],
    },
}
CHATS = {"messages": "messages", "responses": "input"}
COMPLETION = {
    "model": "served",
    "choices": [
        {
            "message": {
                "content": "I look.",
                "tool_calls": [{"id": "call_0", "function": {"name": "look", "arguments": '{"at": "shelf"}'}}],
            }
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 5},
}
BOTH = pytest.mark.parametrize("path", ["messages", "responses"])


def ask(agent: Agent, path: str, **more: Any) -> httpx.Response:
    headers = more.pop("headers", None)
    return agent.http.post(path, json={"model": "mine", **REQUESTS[path], **more}, headers=headers)


def next_turn(path: str, reply: dict[str, Any]) -> dict[str, Any]:
    """The chat with the reply, as agents' libraries send it back, followed by the result of its call."""
    if path == "messages":
        result = {"type": "tool_result", "tool_use_id": "call_0", "content": "a lamp", "cache_control": {}}
        blocks = [{**block, "citations": None} for block in reply["content"] if block["type"] != "thinking"]
        turns = [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
        return {"messages": [*REQUESTS[path]["messages"], *turns]}
    items = [item for item in reply["output"] if item["type"] != "reasoning"]
    question = {"role": "user", "content": [{"type": "input_text", "text": "Where is the lamp?"}]}
    return {"input": [question, *items, {"type": "function_call_output", "call_id": "call_0", "output": "a lamp"}]}


def events_of(text: str) -> list[dict[str, Any]]:
    """The events of a stream, each checked to have the name given in its data."""
    events = []
    for lines in text.strip().split("\n\n"):
        name, data = lines.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


@BOTH
def test_an_episode_in_another_protocol_becomes_a_trajectory_like_any_other(
    path: str, agent: Agent, upstream: Upstream
) -> None:
    upstream.replies = [calls("look", '{"at": "shelf"}'), says("On the shelf.")]
    first = ask(agent, path)
    assert first.json()["model"] == "mine"
    assert (upstream.requests[0]["model"], "return_token_ids" in upstream.requests[0]) == ("served", False)
    again = ask(agent, path, headers={"x-stainless-retry-count": "1"})
    assert (again.json(), again.headers["x-retrace-replayed"]) == (first.json(), "true")

    streamed = ask(agent, path, stream=True, **next_turn(path, first.json()))
    events = events_of(streamed.text)
    assert events[-1]["type"] in ("message_stop", "response.completed")
    shown = events[0].get("message") or events[0]["response"]
    assert shown["model"] == "mine"

    before, call = Call.objects.order_by("id")
    assert (before.parent_id, call.parent_id, call.join) == (None, before.pk, Join.MESSAGES)
    assert (call.dialect, call.status, len(call.messages)) == (path, "ok", 1)
    assert "token ids" in call.untrainable
    read = upstream.completion({"messages": spellings.chat_of(path, upstream.requests[1]), "model": ""}, says("")({}))
    assert call.prompt_tokens == read["usage"]["prompt_tokens"]  # including those from a cache
    assert call.completion_tokens == len("On the shelf.") + 1

    sessions.finish_session(session=agent.session, success=True)
    trajectory = Path.objects.get().trajectory
    assert (trajectory.task.instruction, trajectory.tools) == ("Where is the lamp?", [OFFERED])
    look, answer_step = trajectory.steps.order_by("index")
    assert [message["role"] for message in look.context] == ["system", "user"]
    assert look.message["reasoning_content"] == spellings.THOUGHT
    assert look.message["tool_calls"][0]["function"] == {"name": "look", "arguments": {"at": "shelf"}}
    assert answer_step.context == [{"role": "tool", "tool_call_id": "call_0", "content": "a lamp"}]
    assert answer_step.message["content"] == "On the shelf."


@BOTH
def test_a_server_that_speaks_chat_completions_alone_is_named_in_words(
    path: str, agent: Agent, upstream: Upstream
) -> None:
    upstream.speaks = {"chat/completions"}
    refused = ask(agent, path)
    assert refused.status_code == 404
    assert f"doesn't speak {'Anthropic' if path == 'messages' else 'OpenAI'}" in refused.json()["error"]["message"]
    assert ("type" in refused.json()) == (path == "messages")  # each in its own form
    upstream.speaks.add(path)
    upstream.status, upstream.error = 400, b'{"type": "error", "error": {"type": "x", "message": "too hot"}}'
    assert (ask(agent, path).status_code, ask(agent, path).content) == (400, upstream.error)
    assert {call.status for call in Call.objects.all()} == {"failed"}


@BOTH
def test_a_stream_that_breaks_off_ends_with_an_error_in_its_protocol(
    path: str, agent: Agent, upstream: Upstream
) -> None:
    upstream.breaks_after = 4
    assert events_of(ask(agent, path, stream=True).text)[-1]["type"] == "error"
    assert Call.objects.get().status == Call.Status.FAILED


def test_a_chat_that_lies_elsewhere_is_refused(agent: Agent, upstream: Upstream) -> None:
    for more in (
        {"previous_response_id": "resp_1"},
        {"background": True},
        {"input": [{"type": "item_reference", "id": "x"}]},
        {"input": [1]},
    ):
        assert ask(agent, "responses", **more).status_code == 400
    assert not upstream.requests


@BOTH
def test_of_a_split_nothing_tells_which_server_answers(
    path: str,
    gateway_url: str,
    researcher: Membership,
    arms: Arms,  # noqa: F811
    split_of: Callable[..., TrafficSplit],  # noqa: F811
) -> None:
    opened = open_split_session(split=split_of(1), by=researcher.user, unit="session 1")
    agent = Agent(gateway_url, sessions.NewSession(opened.session, opened.key))
    with agent.http:
        whole, streamed = ask(agent, path), ask(agent, path, stream=True)
        arms.servers[0].status = 400
        error = ask(agent, path)
    assert (whole.status_code, streamed.status_code, error.status_code) == (200, 200, 400)
    for text in (whole.text, streamed.text, error.text):
        for secret in ("old-model", "chatcmpl-1", "resp_1", "msg_1", "kv_transfer", "service_tier", "cache", "too hot"):
            assert secret not in text
    assert error.json()["error"]["message"] == "The policy's server refused the request."


def test_of_a_split_the_parts_of_a_response_look_alike_whatever_a_server_leaves_empty() -> None:
    context = ReplyContext(Call().pk, "mine", 1, is_blind=True)

    def shown(text: dict[str, Any], more: dict[str, Any]) -> list[Any]:
        """Parts of a reply from a server that writes this text, and adds these fields to its pieces."""
        dialect = OpenAIResponses({"model": "mine", "input": "?"}, context)
        item = {"type": "message", "role": "assistant", "id": "any", "status": "completed", "content": [text]}
        thought = {"type": "reasoning", "id": "other", "summary": [{"type": "summary_text", "text": "So.", **more}]}
        reply = {"id": "resp_1", "status": "completed", "output": [thought, item], "usage": None}
        place = {"item_id": "any", "output_index": 0, "content_index": 0, "sequence_number": 1}
        events = [
            {"type": "response.content_part.added", **place, "part": {**text, "text": ""}},
            {"type": "response.output_text.delta", **place, "delta": "On", **more},
            {"type": "response.output_text.done", **place, "text": "On it.", **more},
        ]
        dialect.process_reply(reply)
        return [reply, *map(dialect.process_chunk, events)]

    text = {"type": "output_text", "text": "On it."}
    assert shown({**text, "annotations": [], "logprobs": []}, {"logprobs": []}) == shown(
        {**text, "logprobs": None, "kv_transfer": 1}, {"kv_transfer": 1}
    )


def test_of_a_split_pings_dont_tell_who_answers() -> None:
    ping = {"type": "ping"}
    for is_blind, shown in ((True, b""), (False, named_event(ping))):
        dialect = AnthropicMessages({"messages": []}, ReplyContext(Call().pk, "mine", 1, is_blind=is_blind))
        assert dialect.process_chunk(dict(ping)) == shown


def test_what_rules_find_is_stored_in_no_protocol_and_images_stay(
    agent: Agent, upstream: Upstream, researcher: Membership
) -> None:
    add_rule(workspace=researcher.workspace, by=researcher.user, name="name", pattern="Ada|iVBOR")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    upstream.replies = [says("Hello, Ada.")]
    content = [{"type": "text", "text": "I am Ada."}, image]
    assert "Hello, Ada." in ask(agent, "messages", messages=[{"role": "user", "content": content}]).text
    call = Call.objects.get()
    assert "Ada" not in json.dumps([call.messages, call.reply])
    assert call.messages[1]["content"][1] == image


@pytest.mark.parametrize(
    ("speaks", "reply", "events"),
    [
        (AnthropicMessages, spellings.message(COMPLETION), spellings.message_events),
        (OpenAIResponses, spellings.response(COMPLETION), spellings.response_events),
    ],
    ids=["messages", "responses"],
)
def test_a_stream_is_put_together_to_the_reply_that_it_was_cut_from(
    speaks: type[Dialect], reply: dict[str, Any], events: Callable[..., Any]
) -> None:
    context = ReplyContext(Call().pk, reply["model"], 1, is_blind=False)
    body = {"model": reply["model"], "messages": [], "input": ""}
    theirs, ours = speaks(body, context), speaks(body, context)
    for event in events(reply):
        assert theirs.process_chunk(json.loads(json.dumps(event))) == named_event(event)
    for event in events_of(theirs.stream_of(reply).decode()):
        ours.process_chunk(event)
    assert theirs.reply() == ours.reply() == reply
    assert theirs.usage == ours.usage == speaks.usage_of(reply)


def test_citations_that_come_one_by_one_stand_in_their_order() -> None:
    streamed = StreamedMessage()
    streamed.add({"type": "message_start", "message": {"role": "assistant", "content": []}})
    block = {"type": "text", "text": "", "citations": [{"cited_text": "first"}]}
    streamed.add({"type": "content_block_start", "index": 0, "content_block": block})
    for words in ("second", "third"):
        delta = {"type": "citations_delta", "citation": {"cited_text": words}}
        streamed.add({"type": "content_block_delta", "index": 0, "delta": delta})
    (whole,) = streamed.message()["content"]
    assert [citation["cited_text"] for citation in whole["citations"]] == ["first", "second", "third"]
    assert block["citations"] == [{"cited_text": "first"}]


def test_a_refusal_of_chat_completions_is_openais(agent: Agent) -> None:
    refused = agent.http.post("chat/completions", content=jsontext.dumps([]))
    assert refused.json() == {
        "error": {
            "message": ChatCompletions.problem_of({}),
            "type": "invalid_request_error",
            "param": None,
            "code": "bad_request",
        }
    }


@pytest.mark.parametrize(
    ("dialect", "items", "reply"),
    [
        ("chat", [{"role": "assistant", "content": ["Hi"]}], {"choices": [{"message": {"content": [None]}}]}),
        (
            "messages",
            [{"role": "user", "content": "Hi", "tool_calls": True}, {"role": "assistant", "content": "Hm."}],
            {"content": [{"type": "text", "text": "Hi"}]},
        ),
        ("responses", [{"type": "function_call", "output": True, "content": []}], {"output": []}),
    ],
)
def test_what_an_agent_sends_ends_in_a_step_that_can_be_read_again(
    dialect: str, items: list[dict[str, Any]], reply: dict[str, Any]
) -> None:
    """Servers ignore what they don't know, and the session has to end nevertheless."""
    between, message = reply_of(dialect, reply)
    step = Step(context=[*context_of(dialect, items), *between], message=message)
    assert Step.from_json(jsontext.loads(jsontext.dumps(step.to_json())), 0) == step
