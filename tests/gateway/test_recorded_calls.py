"""Calls to a policy through the gateway, and what is stored of them."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.utils.timezone import now

from apps.gateway import asgi, sessions
from apps.gateway.models import Call, Join, Path, Session
from apps.gateway.recorder import Recorder
from apps.gateway.session_trajectories import ids_from
from apps.gateway.streamed_response import StreamedResponse
from tests import factories
from tests.gateway.conftest import Agent
from tests.gateway.upstream import END, LOGPROB, Upstream, calls, ids_of, says

ASK = {"role": "user", "content": "Where is the lamp?"}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_an_agent_gets_the_reply_of_its_policy_under_the_name_that_it_asked_for(
    agent: Agent, upstream: Upstream
) -> None:
    reply = agent.ask(ASK).json()
    assert reply["choices"][0]["message"]["content"] == "Done."
    assert reply["model"] == "whatever"
    assert upstream.requests[0]["model"] == "served"


def test_what_the_gateway_asks_for_besides_never_reaches_the_agent(agent: Agent, upstream: Upstream) -> None:
    reply = agent.ask(ASK).json()
    assert (upstream.requests[0]["return_token_ids"], upstream.requests[0]["logprobs"]) == (True, True)
    assert "prompt_token_ids" not in reply
    assert "token_ids" not in reply["choices"][0]
    assert reply["choices"][0]["logprobs"] is None


def test_tokens_are_stored_as_the_engine_sampled_them(agent: Agent) -> None:
    agent.ask(ASK)
    call = Call.objects.get()
    assert ids_from(call.prompt_ids).tolist() == [*ids_of(ASK), *b"assistant:"]
    assert ids_from(call.sampled_ids).tolist() == [*b"Done.", END]
    assert np.frombuffer(call.logprobs or b"", "<f4").tolist() == [LOGPROB] * 6
    assert call.untrainable == ""


def test_a_second_turn_stores_only_what_it_adds(agent: Agent) -> None:
    first = agent.reply(ASK)
    agent.reply(ASK, first, user("Thanks."))
    before, call = Call.objects.order_by("id")
    assert (call.parent_id, call.join) == (before.pk, Join.TOKENS)
    assert call.messages == [user("Thanks.")]
    assert ids_from(call.prompt_ids).tolist() == [*ids_of(user("Thanks.")), *b"assistant:"]


def test_a_reply_that_comes_back_respelled_is_continued_with_a_seam(agent: Agent, upstream: Upstream) -> None:
    upstream.replies = [calls("look", '{"at":"shelf"}'), says("There.")]
    first = agent.reply(ASK)
    first["tool_calls"][0]["function"]["arguments"] = '{"at": "shelf"}'  # a space that the policy never wrote
    result = {"role": "tool", "tool_call_id": "call_0", "content": "a lamp"}
    agent.reply(ASK, first, result)
    before, call = Call.objects.order_by("id")
    assert (call.parent_id, call.join, call.messages) == (before.pk, Join.MESSAGES, [result])
    assert (
        len(ids_from(call.prompt_ids)) == call.prompt_tokens
    )  # the whole prompt: nothing of it is known from earlier calls


def test_the_same_reply_spelled_by_another_library_is_the_same_reply(agent: Agent, upstream: Upstream) -> None:
    upstream.replies = [calls("look", "{}"), says("There.")]
    first = agent.reply(ASK)
    dumped = {**first, "content": "", "refusal": None, "audio": None, "annotations": []}
    agent.reply(ASK, dumped, {"role": "tool", "tool_call_id": "call_0", "content": "a lamp"})
    assert Call.objects.order_by("id").last().parent_id == Call.objects.order_by("id").first().pk  # type: ignore[union-attr]


def test_a_system_prompt_with_the_time_in_it_doesnt_break_the_chat(agent: Agent) -> None:
    first = agent.reply({"role": "system", "content": "It is 12:00."}, ASK)
    agent.reply({"role": "system", "content": "It is 12:01."}, ASK, first, user("Thanks."))
    before, call = Call.objects.order_by("id")
    assert (call.parent_id, call.join) == (before.pk, Join.MESSAGES)


def test_a_system_message_after_a_reply_is_stored(agent: Agent) -> None:
    """Digests ignore it, but it isn't part of the call before."""
    first, late = agent.reply(ASK), {"role": "system", "content": "Be quick."}
    second = agent.reply(ASK, first, late, user("Thanks."))
    agent.reply(ASK, first, late, user("Thanks."), second, user("Bye."))
    assert [call.messages for call in Call.objects.order_by("id")] == [[ASK], [late, user("Thanks.")], [user("Bye.")]]


def test_tools_are_stored_again_only_when_they_change(agent: Agent) -> None:
    look, take = ({"type": "function", "function": {"name": name, "parameters": {}}} for name in ("look", "take"))
    first = agent.reply(ASK, tools=[look])
    second = agent.reply(ASK, first, user("And?"), tools=[look])
    agent.reply(ASK, first, user("And?"), second, user("Take it."), tools=[take])
    assert [call.tools for call in Call.objects.order_by("id")] == [[look], None, [take]]


def test_missing_ids_make_a_call_untrainable_and_the_agent_never_knows(agent: Agent, upstream: Upstream) -> None:
    upstream.loses_ids = 1
    assert agent.reply(ASK)["content"] == "Done."
    call = Call.objects.get()
    assert call.untrainable == "The server counted 34 and 6 tokens, and sent 34 and 5 ids."
    assert (call.prompt_ids, call.sampled_ids, call.logprobs) == (None, None, None)


def test_a_server_that_isnt_vllm_is_asked_for_nothing_that_it_may_refuse(agent: Agent, upstream: Upstream) -> None:
    upstream.owner = "somebody"
    agent.reply(ASK, temperature=0.5, seed=3)
    request = upstream.requests[0]
    assert {*request} == {"model", "messages", "temperature", "seed", "authorization"}
    assert Call.objects.get().untrainable == "The server doesn't return token ids."


def test_a_retry_of_the_agents_library_is_answered_as_before_and_sampled_once(agent: Agent, upstream: Upstream) -> None:
    first = agent.ask(ASK).json()
    again = agent.ask(ASK, headers={"x-stainless-retry-count": "1"})
    assert again.json() == first
    assert again.headers["x-retrace-replayed"] == "true"
    assert len(upstream.requests) == 1
    assert Call.objects.count() == 1


def test_a_retry_of_what_was_never_answered_is_asked(agent: Agent, upstream: Upstream) -> None:
    upstream.status = 503
    assert agent.ask(ASK).status_code == 503
    upstream.status = 200
    assert agent.ask(ASK, headers={"x-stainless-retry-count": "1"}).status_code == 200
    assert [call.status for call in Call.objects.order_by("id")] == ["failed", "ok"]


def test_a_retry_of_a_second_sample_isnt_answered_with_the_first(agent: Agent, upstream: Upstream) -> None:
    upstream.replies = [says("On the shelf."), says("Under it.")]
    assert agent.reply(ASK)["content"] == "On the shelf."
    upstream.status = 503
    assert agent.ask(ASK).status_code == 503
    upstream.status = 200
    for _ in range(2):  # the second time, the retry's own reply was lost
        again = agent.ask(ASK, headers={"x-stainless-retry-count": "1"})
        assert again.json()["choices"][0]["message"]["content"] == "Under it."
    assert again.headers["x-retrace-replayed"] == "true"
    assert len(upstream.requests) == 3
    sessions.finish_session(session=agent.session)
    assert Path.objects.count() == 2


def test_what_failed_in_one_process_isnt_answered_with_an_earlier_sample_by_another(
    agent: Agent, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.replies = [says("On the shelf."), says("Under it.")]
    assert agent.reply(ASK)["content"] == "On the shelf."
    upstream.status = 503
    assert agent.ask(ASK).status_code == 503
    upstream.status = 200
    monkeypatch.setattr(asgi, "recorder", Recorder(asgi.recorder.spool.folder))
    again = agent.ask(ASK, headers={"x-stainless-retry-count": "1"})
    assert again.json()["choices"][0]["message"]["content"] == "Under it."


def test_a_finished_session_is_a_trajectory_with_its_tokens_and_its_outcome(agent: Agent, upstream: Upstream) -> None:
    upstream.replies = [calls("look", '{"at": "shelf"}'), says("On the shelf.")]
    first = agent.reply(ASK)
    agent.reply(ASK, first, {"role": "tool", "tool_call_id": "call_0", "content": "a lamp"})
    sessions.finish_session(session=agent.session, success=True, reward=1.0)
    trajectory = Path.objects.get().trajectory
    assert (trajectory.success, trajectory.reward, trajectory.source) == (True, 1.0, "gateway")
    assert (trajectory.policy_id, trajectory.task.instruction) == (agent.session.policy_id, "Where is the lamp?")
    look, answer_step = trajectory.steps.order_by("index")
    assert look.message["tool_calls"][0]["function"]["arguments"] == {"at": "shelf"}
    assert answer_step.context == [{"role": "tool", "tool_call_id": "call_0", "content": "a lamp"}]
    assert answer_step.info["context_ids"] == [*b"tool:a lamp", END, *b"assistant:"]
    assert answer_step.info["token_ids"] == [*b"On the shelf.", END]


def test_a_sub_agent_is_a_trajectory_of_its_own_without_the_outcome(agent: Agent) -> None:
    first = agent.reply(ASK)
    agent.reply(user("Summarize this."))
    agent.reply(ASK, first, user("Thanks."))
    sessions.finish_session(session=agent.session, success=True, reward=1.0)
    main, other = Path.objects.order_by("-is_main")
    assert (main.trajectory.step_count, main.trajectory.success) == (2, True)
    assert (other.trajectory.step_count, other.trajectory.success, other.trajectory.reward) == (1, None, None)
    assert other.trajectory.parent_id is None


@pytest.mark.parametrize("held_out", [True, False])
def test_every_path_of_a_session_on_a_held_out_task_is_held_out(agent: Agent, held_out: bool) -> None:
    agent.session.task = {"key": "lamp", "environment": "house", "held_out": held_out}
    agent.session.save()
    first = agent.reply(ASK)
    agent.reply(user("Summarize this."))
    agent.reply(ASK, first, user("Left?"))
    agent.reply(ASK, first, user("Right?"))
    sessions.finish_session(session=agent.session, success=True)
    paths = Path.objects.select_related("trajectory__task")
    assert {path.trajectory.task.environment for path in paths} == {"house"}
    assert [path.trajectory.task.held_out for path in paths] == [held_out] * 3


def test_sub_agents_of_different_tasks_share_none(agent: Agent, open_session: Any) -> None:
    keys = []
    for task in ("lamp", "lamp", "chair"):
        opened = open_session(task={"key": task, "environment": "house"})
        agent.http.headers["Authorization"] = f"Bearer {opened.key}"
        agent.reply(ASK, agent.reply(ASK), user("Thanks."))
        agent.reply(user("Summarize this."))
        sessions.finish_session(session=opened.session)
        part = Path.objects.get(session=opened.session, is_main=False).trajectory.task
        assert (part.environment, part.instruction) == ("house", "Summarize this.")
        keys.append(part.key)
    assert keys[0] == keys[1] != keys[2]


def test_every_path_of_a_session_is_held_out_if_the_workspace_holds_out_its_task(agent: Agent) -> None:
    factories.task(of=agent.session.workspace, key="lamp", environment="house", held_out=True)
    agent.session.task = {"key": "lamp", "environment": "house"}
    agent.session.save()
    agent.reply(ASK, agent.reply(ASK), user("Thanks."))
    agent.reply(user("Summarize this."))
    sessions.finish_session(session=agent.session, success=True)
    assert list(Path.objects.values_list("trajectory__task__held_out", flat=True)) == [True, True]


def test_a_branch_knows_where_it_parts_from_the_main_path(agent: Agent) -> None:
    first = agent.reply(ASK)
    agent.reply(ASK, first, user("Left?"))
    second = agent.reply(ASK, first, user("Right?"))
    agent.reply(ASK, first, user("Right?"), second, user("Thanks."))
    sessions.finish_session(session=agent.session)
    main, other = Path.objects.order_by("-is_main")
    assert (main.trajectory.step_count, other.trajectory.step_count) == (3, 2)
    assert (other.trajectory.parent_id, other.trajectory.branch_step) == (main.trajectory_id, 1)


def test_the_end_of_a_stream_is_sent_with_its_last_chunk(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    pump = StreamedResponse._pump

    async def recorded(self: StreamedResponse, send: Any) -> None:
        async def noted(message: Any) -> None:
            sent.append(message)
            await send(message)

        await pump(self, noted)

    monkeypatch.setattr(StreamedResponse, "_pump", recorded)
    assert agent.ask(ASK, stream=True).status_code == 200
    assert [message.get("more_body", True) for message in sent] == [True] * (len(sent) - 1) + [False]
    assert sent[-1]["body"].endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_takes_longer_than_its_session_may_be_idle_keeps_it_open(
    gateway_url: str, open_session: Callable[..., sessions.NewSession], upstream: Upstream, stream: bool
) -> None:
    agent = Agent(gateway_url, open_session(idle_seconds=1))

    def slowly(body: dict[str, Any]) -> dict[str, Any]:
        time.sleep(2.5)
        return says("Done.")(body)

    upstream.replies = [slowly]
    with agent.http, ThreadPoolExecutor(1) as pool:
        response = pool.submit(agent.ask, ASK, stream=stream)
        time.sleep(2)
        sessions.abandon_idle()
        assert Session.objects.get().is_open
        assert response.result().status_code == 200
    Session.objects.update(expires_at=now() - timedelta(seconds=1))
    time.sleep(0.7)
    sessions.abandon_idle()
    assert Session.objects.get().state == Session.State.ABANDONED
