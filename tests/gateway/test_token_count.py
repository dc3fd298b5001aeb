"""Token counts for agents that ask how long their prompt is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from apps.accounts.models import Membership
from apps.gateway import sessions
from apps.gateway.models import Call, Session
from apps.gateway.spending.terms import set_limits
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import open_split_session
from apps.gateway.upstream import CANT_BE_REACHED
from tests.gateway.conftest import Agent
from tests.gateway.splits.conftest import Arms, arms, split_of  # noqa: F401  # fixtures
from tests.gateway.upstream import Upstream

BODY: dict[str, Any] = {"model": "mine", "messages": [{"role": "user", "content": "Where is the lamp?"}]}


def ask(agent: Agent) -> httpx.Response:
    return agent.http.post("messages/count_tokens", json=BODY, headers={"anthropic-beta": "counting"})


def test_the_servers_count_passes_through_and_nothing_is_recorded(agent: Agent, upstream: Upstream) -> None:
    assert ask(agent).json() == {"input_tokens": 41, "server": "secret"}
    assert upstream.requests[0]["model"] == "served"
    assert Call.objects.count() == 0
    sessions.finish_session(session=agent.session)
    refused = ask(agent)
    assert (refused.status_code, refused.json()["type"]) == (403, "error")


def test_a_count_takes_none_of_the_budget_and_one_of_the_requests_a_minute(
    open_session: Callable[..., sessions.NewSession], gateway_url: str, researcher: Membership, upstream: Upstream
) -> None:
    set_limits(workspace=researcher.workspace, by=researcher.user, limits={"session_requests_a_minute": 2})
    agent = Agent(gateway_url, open_session(max_calls=1))
    assert ask(agent).status_code == 200
    assert agent.http.post("messages", json={**BODY, "max_tokens": 9}).status_code == 200
    refused = ask(agent)
    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
    assert len(upstream.requests) == 2


def test_servers_that_count_no_tokens_are_told_in_words(agent: Agent, upstream: Upstream) -> None:
    upstream.speaks = {"chat/completions"}
    refused = ask(agent)
    assert refused.status_code == 404
    assert "count_tokens" in refused.json()["error"]["message"]
    upstream.speaks.add("messages")
    upstream.status, upstream.error = 400, b'{"type": "error", "error": {"type": "x", "message": "too hot"}}'
    assert (ask(agent).status_code, ask(agent).content) == (400, upstream.error)
    upstream.error = b"<h1>nginx"
    assert ask(agent).status_code == 502


def test_this_installations_own_server_counts_none(agent: Agent, upstream: Upstream) -> None:
    Session.objects.update(endpoint=None)
    refused = ask(agent)
    assert (refused.status_code, upstream.requests) == (404, [])
    assert "count_tokens" in refused.json()["error"]["message"]


def test_agents_of_a_split_get_the_number_alone(
    gateway_url: str,
    arms: Arms,  # noqa: F811
    split_of: Callable[..., TrafficSplit],  # noqa: F811
    researcher: Membership,
) -> None:
    agent = Agent(gateway_url, open_split_session(split=split_of(), by=researcher.user, unit="a"))
    assert ask(agent).json() == {"input_tokens": 41}
    for server in arms.servers:
        server.status, server.error = 400, b'{"type": "error", "error": {"type": "x", "message": "too hot for old"}}'
    refused = ask(agent)
    assert refused.status_code == 400
    assert "old" not in refused.json()["error"]["message"]


def test_a_server_of_a_split_that_is_away_isnt_named(
    gateway_url: str,
    arms: Arms,  # noqa: F811
    split_of: Callable[..., TrafficSplit],  # noqa: F811
    researcher: Membership,
) -> None:
    for server in arms.servers:
        server.http.server_close()
    refused = ask(Agent(gateway_url, open_split_session(split=split_of(), by=researcher.user, unit="a")))
    assert (refused.status_code, refused.json()["error"]["message"]) == (502, CANT_BE_REACHED)


def test_outsiders_are_refused(gateway_url: str) -> None:
    answer = httpx.post(f"{gateway_url}/messages/count_tokens", json=BODY, headers={"x-api-key": "rs_no"})
    assert answer.status_code == 401
