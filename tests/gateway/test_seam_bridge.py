"""Calls that continue the policy's tokens although the server's chat template would render its replies to different ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import psycopg
import pytest
from django.db import OperationalError

from apps.gateway import seam_bridge
from apps.gateway.models import Call, Join, Session
from apps.gateway.queries import counts_of
from apps.gateway.seam_bridge import MAX_AFTER_END, Continued, bridged
from apps.gateway.session_trajectories import ids_from
from tests.gateway.conftest import Agent
from tests.gateway.upstream import DERENDER, END, GENERATE, LOGPROB, RENDER, TURN, Upstream, calls, ids_of, says

ASK = {"role": "user", "content": "Where is the lamp?"}
RESULT = {"role": "tool", "tool_call_id": "call_0", "content": "a lamp"}
SAMPLED = [*b'look({"at":"shelf"})', END]
TAIL = [*ids_of(RESULT), *TURN]


@pytest.fixture(autouse=True)
def scaled_out(upstream: Upstream) -> None:
    upstream.scales_out = True
    upstream.replies = [calls("look", '{"at":"shelf"}'), calls("take", '{"it":"lamp"}'), says("There.")]


def respelled(message: dict[str, Any]) -> dict[str, Any]:
    """The reply as an agent's library sends it back: with spaces that the policy didn't write."""
    [call] = message["tool_calls"]
    function = {**call["function"], "arguments": call["function"]["arguments"].replace(":", ": ")}
    return {**message, "tool_calls": [{**call, "function": function}]}


def prompts() -> list[list[int]]:
    """The whole prompt of each call, in order."""
    whole: list[list[int]] = []
    so_far: list[int] = []
    for call in Call.objects.order_by("id"):
        whole.append((so_far if call.join == Join.TOKENS else []) + ids_from(call.prompt_ids).tolist())
        so_far = whole[-1] + ids_from(call.sampled_ids).tolist()
    return whole


def test_a_respelled_reply_is_continued_in_the_tokens_that_were_sampled(agent: Agent, upstream: Upstream) -> None:
    first = agent.reply(ASK)
    reply = agent.ask(ASK, respelled(first), RESULT).json()
    assert reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "take"
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    assert (reply["model"], "prompt_token_ids" in reply, reply["choices"][0]["logprobs"]) == ("whatever", False, None)
    before, call = Call.objects.order_by("id")
    assert (call.parent_id, call.join, call.is_bridged, call.untrainable) == (before.pk, Join.TOKENS, True, "")
    assert prompts()[1] == [*ids_of(ASK), *TURN, *SAMPLED, *TAIL]
    assert ids_from(call.sampled_ids).tolist() == [*b'take({"it":"lamp"})', END]
    assert np.unique(np.frombuffer(call.logprobs or b"", "<f4")).tolist() == [LOGPROB]
    assert upstream.steps == [RENDER, RENDER, GENERATE, DERENDER]
    counts = counts_of(agent.session)
    assert (counts.seams, counts.bridged) == (0, 1)


def test_so_is_the_turn_after_it(agent: Agent, upstream: Upstream) -> None:
    first = respelled(agent.reply(ASK))
    second = respelled(agent.reply(ASK, first, RESULT))
    third = agent.reply(ASK, first, RESULT, second, RESULT)
    assert third["content"] == "There."
    assert [(call.join, call.is_bridged) for call in Call.objects.order_by("id")] == [
        (Join.ROOT, False),
        (Join.TOKENS, True),
        (Join.TOKENS, True),
    ]
    assert upstream.generations[1]["token_ids"] == [
        *(*ids_of(ASK), *TURN, *SAMPLED),
        *(*TAIL, *b'take({"it":"lamp"})', END),
        *TAIL,
    ]


def test_where_the_tokens_match_anyway_a_chat_completion_is_requested(agent: Agent, upstream: Upstream) -> None:
    agent.reply(ASK, agent.reply(ASK), RESULT)
    assert upstream.steps == [RENDER]
    assert len(upstream.requests) == 2
    assert [call.is_bridged for call in Call.objects.order_by("id")] == [False, False]


def test_an_agent_that_streams_gets_a_stream(agent: Agent) -> None:
    first = respelled(agent.reply(ASK))
    streamed = agent.ask(ASK, first, RESULT, stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert '"name":"take"' in streamed.text
    assert streamed.text.endswith("data: [DONE]\n\n")
    assert Call.objects.order_by("id").last().is_bridged  # type: ignore[union-attr]


def test_what_the_agent_asks_for_of_tokens_it_gets(agent: Agent) -> None:
    first = respelled(agent.reply(ASK))
    reply = agent.ask(ASK, first, RESULT, return_token_ids=True, logprobs=True).json()
    assert reply["prompt_token_ids"] == prompts()[1]
    assert reply["choices"][0]["token_ids"][-1] == END
    assert reply["choices"][0]["logprobs"]["content"][0]["logprob"] == LOGPROB


def test_a_limit_that_the_context_sets_is_that_of_the_longer_prompt(agent: Agent, upstream: Upstream) -> None:
    upstream.replies[0] = calls("look", '{"at" :  "shelf"}')
    first = agent.reply(ASK)
    first["tool_calls"][0]["function"]["arguments"] = '{"at":"shelf"}'
    agent.reply(ASK, first, RESULT)
    agent.reply(ASK, first, RESULT, max_tokens=7)
    of_context, of_messages = upstream.generations
    assert of_context["sampling_params"]["max_tokens"] == 4096 - len(of_context["token_ids"])
    assert of_messages["sampling_params"]["max_tokens"] == 7


def test_a_server_that_cannot_is_asked_once(agent: Agent, upstream: Upstream) -> None:
    upstream.scales_out = False
    first = respelled(agent.reply(ASK))
    agent.reply(ASK, first, RESULT)
    agent.reply(ASK, first, RESULT, {"role": "user", "content": "And?"})
    assert upstream.steps == [RENDER]
    assert [call.join for call in Call.objects.order_by("id")] == [Join.ROOT, Join.MESSAGES, Join.MESSAGES]


@pytest.mark.parametrize(("status", "is_asked_again"), [(400, True), (404, False), (429, True)])
def test_a_refused_generation_becomes_a_chat_completion(
    agent: Agent, upstream: Upstream, status: int, is_asked_again: bool
) -> None:
    upstream.fails_at = {GENERATE: status}
    first = respelled(agent.reply(ASK))
    second = agent.reply(ASK, first, RESULT)
    assert second["tool_calls"][0]["function"]["name"] == "take"
    upstream.fails_at, upstream.steps = {}, []
    agent.reply(ASK, first, RESULT, respelled(second), RESULT)
    assert bool(upstream.steps) is is_asked_again
    assert Call.objects.filter(join=Join.MESSAGES, untrainable="").exists()


def test_a_generation_that_failed_isnt_repeated(agent: Agent, upstream: Upstream) -> None:
    upstream.fails_at = {GENERATE: 500}
    first = respelled(agent.reply(ASK))
    failed = agent.ask(ASK, first, RESULT)
    assert (failed.status_code, failed.json()["error"]["message"]) == (500, "disabled")
    assert len(upstream.requests) == 1
    assert Call.objects.order_by("id").last().status == Call.Status.FAILED  # type: ignore[union-attr]


def test_a_reply_that_cant_be_parsed_fails_counts_and_is_the_last_of_its_kind(agent: Agent, upstream: Upstream) -> None:
    upstream.fails_at = {DERENDER: 500}
    first = respelled(agent.reply(ASK))
    used = Session.objects.get().tokens_used
    assert agent.ask(ASK, first, RESULT).status_code == 502
    assert Session.objects.get().tokens_used > used
    upstream.steps = []
    assert agent.ask(ASK, first, RESULT).status_code == 200
    assert upstream.steps == []


def test_an_agent_goes_on_while_the_database_is_away(
    agent: Agent, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(call_id: object) -> None:
        raise OperationalError("the connection is lost") from psycopg.OperationalError()

    first = respelled(agent.reply(ASK))
    monkeypatch.setattr(seam_bridge, "tokens_of", away)
    assert agent.ask(ASK, first, RESULT).status_code == 200
    assert Call.objects.latest("id").join == Join.MESSAGES


@pytest.mark.parametrize(
    "change",
    [
        lambda upstream: upstream.__setattr__("features", {"mm_hashes": {}}),
        lambda upstream: Call.objects.update(sampled_ids=None),
        lambda upstream: Call.objects.update(reply={"choices": [{"finish_reason": "length"}]}),
        lambda upstream: Call.objects.update(reply={"choices": [{"finish_reason": "stop", "stop_reason": "END"}]}),
        lambda upstream: Call.objects.update(request={"stop": ["\n"]}),
        lambda upstream: upstream.fails_at.update({RENDER: 503}),
    ],
    ids=["images", "tokens aren't stored", "cut by the limit", "cut by a stop string", "perhaps cut", "no answer"],
)
def test_what_cant_be_joined_has_a_seam(agent: Agent, upstream: Upstream, change: Callable[[Upstream], object]) -> None:
    first = respelled(agent.reply(ASK))
    change(upstream)
    agent.reply(ASK, first, RESULT)
    call = Call.objects.latest("id")
    assert (call.join, call.is_bridged, call.untrainable) == (Join.MESSAGES, False, "")
    assert GENERATE not in upstream.steps


def test_a_changed_system_message_isnt_bridged_over(agent: Agent, upstream: Upstream) -> None:
    first = respelled(agent.reply({"role": "system", "content": "It is 12:00."}, ASK))
    second = respelled(agent.reply({"role": "system", "content": "It is 12:01."}, ASK, first, RESULT))
    late = {"role": "system", "content": "Be quick."}
    agent.reply({"role": "system", "content": "It is 12:01."}, ASK, late, first, RESULT, second, RESULT)
    assert GENERATE not in upstream.steps
    assert Call.objects.filter(join=Join.MESSAGES).count() == 2


def test_the_reply_has_the_fields_of_any_other(agent: Agent) -> None:
    first = agent.ask(ASK).json()
    joined = agent.ask(ASK, respelled(first["choices"][0]["message"]), RESULT).json()
    assert joined.keys() == first.keys()
    assert joined["choices"][0].keys() == first["choices"][0].keys()


@pytest.mark.parametrize(
    ("rendered", "shared", "expected"),
    [
        ([1, 2, 8, 9, 5, 6], [1, 2, 8, 9], [1, 2, 3, 4, 9, 5, 6]),
        (
            [1, 2, 8, 9, 0, 5, 6],
            [1, 2, 8, 9, 0],
            [1, 2, 3, 4, 9, 0, 5, 6],
        ),  # the template ends a turn with a line break
        ([1, 2, 9, 8, 9, 5], [1, 2, 9, 8, 9], [1, 2, 3, 4, 9, 5]),
        ([1, 2, 8, 7, 5, 6], [1, 2, 8, 7], None),  # a different end-of-turn token
        ([1, 7, 8, 9, 5, 6], [1, 7, 8, 9], None),  # a different beginning
        ([1, 2, 6, 9, 5, 6], [1, 2, 8, 9], None),  # the reply is rendered differently once something follows it
        ([1, 2, 8, 9], [1, 2, 8, 9], None),  # nothing follows
        (
            [1, 2, 9, *[0] * MAX_AFTER_END, 5],
            [1, 2, 9, *[0] * MAX_AFTER_END],
            [1, 2, 3, 4, 9, *[0] * MAX_AFTER_END, 5],
        ),
        ([1, 2, 9, *[0] * (MAX_AFTER_END + 1), 5], [1, 2, 9, *[0] * (MAX_AFTER_END + 1)], None),
        ([5], [], None),
    ],
)
def test_where_a_prompt_is_joined(rendered: list[int], shared: list[int], expected: list[int] | None) -> None:
    continued = Continued(np.array([1, 2, 3, 4, 9], np.int32), 2)
    joined = bridged(continued, np.array(rendered, np.int32), np.array(shared, np.int32))
    assert (None if joined is None else joined.tolist()) == expected


def test_the_end_of_an_earlier_message_is_not_taken_for_that_of_a_reply() -> None:
    """As in GLM's template, where 9 begins a message of the user, 7 one of the assistant, and the policy ends its turn with 9."""
    continued = Continued(np.array([9, 1, 7, 2, 3, 9], np.int32), 3)
    shared = np.array([9, 1, 7, 5], np.int32)
    assert bridged(continued, np.append(shared, np.array([9, 6, 7], np.int32)), shared) is None


def test_a_long_session_is_read_in_few_statements(agent: Agent, django_assert_num_queries: Any) -> None:
    """Not one statement per call: the number of calls and their size are up to the agent and the server."""
    first = agent.reply(ASK)
    second = agent.ask(ASK, respelled(first), RESULT).json()["choices"][0]["message"]
    agent.reply(ASK, respelled(first), RESULT, respelled(second), RESULT)
    last = Call.objects.order_by("id").last()
    assert last is not None
    assert last.join == Join.TOKENS
    with django_assert_num_queries(2):
        tokens = seam_bridge.tokens_of(last.pk)
    assert tokens is not None
    whole = prompts()
    assert tokens.sequence.tolist() == whole[-1] + ids_from(last.sampled_ids).tolist()
    assert tokens.rendered == len(whole[0])


def test_more_tokens_than_a_model_has_are_not_read(agent: Agent, upstream: Upstream, monkeypatch: Any) -> None:
    first = agent.reply(ASK)
    monkeypatch.setattr(seam_bridge, "MAX_TOKENS", 10)
    agent.ask(ASK, respelled(first), RESULT)
    assert upstream.steps == []
    assert Call.objects.latest("id").join == Join.MESSAGES


def test_the_tokens_of_very_many_calls_are_not_read(agent: Agent, monkeypatch: Any) -> None:
    first = agent.reply(ASK)
    agent.ask(ASK, respelled(first), RESULT)
    last = Call.objects.order_by("id").last()
    assert last is not None
    assert last.join == Join.TOKENS
    monkeypatch.setattr(seam_bridge, "MAX_CALLS", 1)
    assert seam_bridge.tokens_of(last.pk) is None
