"""Sessions of an agent's program, through the real gateway to a model server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from openai import AsyncOpenAI, OpenAI
from retrace import AsyncClient, Client, RequestRefused, RetraceError

from apps.accounts.models import Workspace
from apps.gateway.models import Session
from apps.policies import registration
from tests import factories
from tests.client.network import Network, answer_lost
from tests.gateway.upstream import Upstream, says
from tests.live import LiveStack

TASK = {"key": "lamp", "environment": "shop", "instruction": "Find the lamp."}
MESSAGES = [{"role": "user", "content": "Find the lamp."}]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream(says("On the shelf.")) as server:
        yield server


@pytest.fixture
def clerk(workspace: Workspace, upstream: Upstream) -> str:
    """The name of a policy that `upstream` serves."""
    user = factories.user()
    registration.register_served(workspace=workspace, name="clerk", base_url=upstream.url, model="served", by=user)
    return "clerk"


def ask(session: object) -> str | None:
    agent = OpenAI(base_url=session.base_url, api_key=session.api_key, max_retries=0)  # type: ignore[attr-defined]
    return agent.chat.completions.create(model="any", messages=MESSAGES).choices[0].message.content  # type: ignore[arg-type]


def test_an_agent_changes_its_address_and_key_and_nothing_else(client: Client, clerk: str) -> None:
    with client.session(policy=clerk, task=TASK, agent="mine", group="lamps", attempt=1) as session:
        assert ask(session) == "On the shelf."
        session.reward(0.25, name="polite")
        session.reward(0.5)
        trace = session.trace()
        state = session.finish(outcome="success", rewards={"speed": 0.9})
    assert (state.state, state.success, state.calls, state.agent, state.group) == ("finished", True, 1, "mine", "lamps")
    assert (state.reward, state.rewards["speed"]) == (0.75, 0.9)
    assert [(event.name, event.value) for event in trace.events] == [("polite", 0.25), ("", 0.5)]
    [step] = trace.trajectory["steps"]
    assert step["message"]["content"] == "On the shelf."
    stored = client.trajectories.read(str(client.sessions.read(session.id).trajectory))
    assert (stored["task"]["key"], stored["outcome"]["success"], stored["outcome"]["reward"]) == ("lamp", True, 0.75)


def test_a_block_that_ends_by_itself_finishes_without_an_outcome(client: Client, clerk: str) -> None:
    with client.session(policy=clerk, task=TASK) as session:
        ask(session)
    state = client.sessions.read(session.id)
    assert (state.state, state.success, state.reward) == ("finished", None, None)


def test_an_exception_leaves_it_unfinished_and_on_record(client: Client, clerk: str) -> None:
    session = client.session(policy=clerk, task=TASK)
    with pytest.raises(ZeroDivisionError), session:
        print(ask(session), 1 / 0)
    assert client.sessions.read(session.id).state == "open"  # and abandoned if idle
    [event] = client.sessions.trace(session.id).events
    assert (event.type, event.name) == ("custom", "exception")
    assert event.value == {"type": "ZeroDivisionError", "message": "division by zero"}


def test_an_exception_stays_the_agents_own_when_the_server_is_gone(
    far_client: Client, network: Network, clerk: str
) -> None:
    session = far_client.session(policy=clerk)

    def fail() -> None:
        network.fail = [answer_lost] * 9
        raise KeyError("lamp")

    with pytest.raises(KeyError, match="lamp"), session:
        fail()
    assert len(network.fail) == 7  # it tried twice, not six times: the agent waits for its own exception


def test_rewards_and_the_end_are_counted_once_however_often_they_are_sent(
    far_client: Client, network: Network, clerk: str
) -> None:
    with far_client.session(policy=clerk, task=TASK) as session:
        network.fail = [answer_lost]
        session.reward(0.5)
        network.fail = [answer_lost, answer_lost]
        assert session.finish(outcome="failure").reward == 0.5
    assert [event.value for event in far_client.sessions.trace(session.id).events] == [0.5]


def test_a_session_whose_opening_got_lost_is_not_opened_twice_unnoticed(
    far_client: Client, network: Network, clerk: str
) -> None:
    network.fail = [answer_lost]
    with pytest.raises(RetraceError, match="may have been carried out"), far_client.session(policy=clerk):
        pass
    assert Session.objects.count() == 1


def test_wrong_uses_are_named(client: Client, clerk: str) -> None:
    with pytest.raises(RetraceError, match="isn't open yet"):
        _ = client.session(policy=clerk).base_url
    with client.session(policy=clerk) as session:
        with pytest.raises(ValueError, match=r"'won' isn't an outcome. Give success, failure, or none"):
            session.finish(outcome="won")  # type: ignore[arg-type]
        with pytest.raises(RetraceError, match="opened already"), session:
            pass
    with pytest.raises(RequestRefused, match="no policy 'nobody'"), client.session(policy="nobody"):
        pass


async def test_agents_in_an_event_loop_run_side_by_side(live_stack: LiveStack, token: str, clerk: str) -> None:
    async with AsyncClient(live_stack.url, token) as client:

        async def episode(attempt: int) -> str:
            async with client.session(policy=clerk, task=TASK, group="lamps", attempt=attempt) as session:
                agent = AsyncOpenAI(base_url=session.base_url, api_key=session.api_key)
                chat = await agent.chat.completions.create(model="any", messages=MESSAGES)  # type: ignore[arg-type]
                await session.reward(float(chat.choices[0].message.content == "On the shelf."))
                await session.finish(outcome="success")
                return session.id

        ids = await asyncio.gather(*(episode(attempt) for attempt in range(4)))
        states = {
            state.id: (state.state, state.reward, state.attempt) async for state in client.sessions.list(page_size=2)
        }
        assert states == {id: ("finished", 1.0, attempt) for attempt, id in enumerate(ids)}

        failing = client.session(policy=clerk)
        with pytest.raises(ZeroDivisionError):
            async with failing as session:
                print(1 / 0)
        trace = await client.sessions.trace(session.id)
        assert [event.name for event in trace.events] == ["exception"]


def test_the_key_of_a_session_is_not_part_of_what_is_read_later(client: Client, clerk: str) -> None:
    with client.session(policy=clerk) as session:
        assert "api_key" not in json.loads(client.sessions.read(session.id).model_dump_json())
