"""The cost of calls, and refusals beyond a workspace's limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest
import redis
from django.conf import settings
from django.db import OperationalError
from django.test import Client

from apps.accounts.models import Membership, Role
from apps.gateway import asgi, recorder, sessions
from apps.gateway.models import Call
from apps.gateway.queries import cost_of
from apps.gateway.recorder import Recorder
from apps.gateway.spending import counters, terms
from apps.gateway.spending.costs import Cost, dollars, exact
from apps.policies import registration
from tests import factories
from tests.gateway.conftest import Agent
from tests.gateway.upstream import Upstream, says

ASK = {"role": "user", "content": "Where is the lamp?"}
READ, WRITTEN = 34, 6
"""Tokens of ASK and its reply as counted by the server."""


@pytest.fixture(autouse=True)
def known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "CACHE_SECONDS", 0.0)
    monkeypatch.setattr(counters, "VALKEY_SECONDS", 60.0)  # however slow the machine is


def settle() -> None:
    """Wait until usage has been counted, which the agent doesn't wait for."""
    while asgi.recorder._tasks:
        time.sleep(0.01)


@pytest.fixture
def limit(researcher: Membership) -> Callable[..., None]:
    def limited(**limits: Any) -> None:
        terms.set_limits(workspace=researcher.workspace, by=researcher.user, limits=limits)

    return limited


@pytest.fixture
def price(agent: Agent, researcher: Membership) -> Callable[..., None]:
    """Sets the price of the policy or of its endpoint."""

    def priced(input: str, output: str, cached: str | None = None, of: str = "policy") -> None:
        terms.set_price(
            workspace=researcher.workspace,
            by=researcher.user,
            input=Decimal(input),
            output=Decimal(output),
            cached=None if cached is None else Decimal(cached),
            **{of: getattr(agent.session, of)},
        )

    return priced


def error_of(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    return error


def test_a_call_costs_what_the_prices_of_its_time_say_and_what_has_none_is_unknown(
    agent: Agent, price: Callable[..., None]
) -> None:
    agent.ask(ASK)
    assert str(cost_of(agent.session)) == "unknown"
    price("2.5", "10", of="endpoint")
    agent.ask(ASK)
    first = (READ * Decimal("2.5") + WRITTEN * 10) / 1_000_000
    assert Call.objects.order_by("-id")[0].cost == first == Decimal("0.000145")
    price("0", "1")  # its own price takes precedence over its endpoint's
    agent.ask(ASK)
    cost = cost_of(agent.session)
    assert (cost.dollars, cost.unknown, cost.calls) == (first + Decimal("0.000006"), 1, 3)
    assert str(cost) == "at least $0.00015"


def test_what_the_server_refused_costs_nothing_and_what_it_didnt_count_is_estimated(
    agent: Agent, upstream: Upstream, price: Callable[..., None]
) -> None:
    price("1", "1")
    upstream.status = 400
    agent.ask(ASK)
    upstream.status, upstream.breaks_after = 200, 3
    agent.ask(ASK, stream=True)
    assert [(call.cost == 0, call.is_cost_estimated) for call in Call.objects.order_by("id")] == [
        (True, False),
        (False, True),
    ]
    assert str(cost_of(agent.session)).startswith("about $0.0000")


def test_cached_tokens_have_a_price_of_their_own() -> None:
    rates = terms.Rates(Decimal(2), Decimal("0.2"), Decimal(8))
    assert rates.cost(read=1_000_000, cached=400_000, written=500_000) == Decimal("1.2") + Decimal("0.08") + 4


@pytest.mark.parametrize(
    ("amount", "words"), [("0", "$0.00"), ("12.346", "$12.35"), ("0.0123", "$0.012"), ("0.00000012", "$0.00000012")]
)
def test_money_is_shown_with_the_digits_that_tell_something(amount: str, words: str) -> None:
    assert dollars(Decimal(amount)) == words
    assert Cost(Decimal(0), 2, 0, 2).to_json()["dollars"] is None


@pytest.mark.parametrize(
    ("price", "words"),
    [("100", "$100.00"), ("0.500000", "$0.50"), ("0", "$0.00"), ("0.000125", "$0.000125"), ("12345.5", "$12,345.50")],
)
def test_prices_are_shown_exactly(price: str, words: str) -> None:
    assert exact(Decimal(price)) == words


def test_requests_beyond_a_minutes_limit_wait_for_all_processes_alike(
    agent: Agent, upstream: Upstream, limit: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(requests_a_minute=2)
    assert [agent.ask(ASK).status_code for _ in range(2)] == [200, 200]
    monkeypatch.setattr(asgi, "recorder", Recorder(asgi.recorder.spool.folder))  # another process
    refused = agent.ask(ASK)
    assert refused.status_code == 429
    assert error_of(refused)["code"] == "rate_limit_exceeded"
    assert error_of(refused)["type"] == "requests"
    assert 1 <= int(refused.headers["retry-after"]) <= 65
    assert "x-should-retry" not in refused.headers
    assert (len(upstream.requests), Call.objects.count()) == (2, 2)


def test_a_sample_that_had_to_wait_isnt_answered_with_an_earlier_one_to_the_same_prompt(
    agent: Agent, upstream: Upstream, limit: Callable[..., None]
) -> None:
    upstream.replies = [says("On the shelf."), says("Under it.")]
    assert agent.reply(ASK)["content"] == "On the shelf."
    limit(requests_a_minute=1)
    assert [agent.ask(ASK).status_code for _ in range(2)] == [200, 429]
    limit()
    again = agent.ask(ASK, headers={"x-stainless-retry-count": "1"})
    assert "x-retrace-replayed" not in again.headers
    assert len(upstream.requests) == 3


def test_a_session_that_has_had_its_tokens_waits_and_others_go_on(
    agent: Agent, gateway_url: str, open_session: Callable[..., sessions.NewSession], limit: Callable[..., None]
) -> None:
    limit(session_tokens_a_minute=READ + WRITTEN)
    assert agent.ask(ASK).status_code == 200
    settle()
    assert agent.ask(ASK).status_code == 429
    other = Agent(gateway_url, open_session())
    with other.http:
        assert other.ask(ASK).status_code == 200


def test_money_is_limited_by_the_day_and_added_up_from_the_database_where_valkey_has_lost_it(
    agent: Agent, upstream: Upstream, limit: Callable[..., None], price: Callable[..., None]
) -> None:
    limit(dollars_a_day=Decimal("0.01"))
    assert error_of(agent.ask(ASK))["code"] == "price_unknown"
    price("1000", "0")
    assert agent.ask(ASK).status_code == 200  # costs 0.034
    assert not upstream.requests[1:]
    settle()
    with redis.Redis.from_url(settings.CACHES["default"]["LOCATION"]) as valkey:
        for key in valkey.scan_iter(f"gateway:spent:{agent.session.workspace_id}:*"):
            valkey.delete(key)
    refused = agent.ask(ASK)
    assert (refused.status_code, error_of(refused)["code"]) == (429, "budget_spent")
    assert "limit of $0.01 per day" in error_of(refused)["message"]
    assert 1 <= int(refused.headers["retry-after"]) <= 86_400
    assert refused.headers["x-should-retry"] == "false"


def test_while_valkey_is_away_calls_pass(
    agent: Agent, limit: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise ConnectionError

    limit(requests_a_minute=1)
    monkeypatch.setattr(counters.Counters, "_run", away)
    assert [agent.ask(ASK).status_code for _ in range(2)] == [200, 200]


@pytest.mark.parametrize(("setting", "status"), [("pass", 200), ("refuse", 503)])
def test_while_spending_cant_be_summed_a_setting_decides_whether_calls_pass(
    agent: Agent,
    limit: Callable[..., None],
    price: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    setting: str,
    status: int,
) -> None:
    def away(*_: object) -> None:
        raise OperationalError("the connection is lost")

    limit(dollars_a_day=Decimal("0.01"))
    price("1", "0")
    settings.GATEWAY_WITHOUT_DATABASE = setting
    monkeypatch.setattr(recorder, "spent_since", away)
    assert agent.ask(ASK).status_code == status


def test_owners_set_prices_and_limits_on_a_page(client: Client, price: Callable[..., None], agent: Agent) -> None:
    owner = factories.member(Role.OWNER, of=agent.session.workspace)
    client.force_login(owner.user)
    client.post("/settings/usage/limits/", {"requests_a_minute": "60", "dollars_a_day": "12.5"})
    fields = {"of": f"policy {agent.session.policy_id}", "input": "0.5", "output": "100"}
    client.post("/settings/usage/prices/", fields)
    assert client.post("/settings/usage/prices/", {**fields, "input": "-1"}).status_code == 422
    page = client.get("/settings/usage/").content.decode()
    assert 'value="12.50"' in page
    assert "$0.50" in page
    assert "$100.00" in page


@pytest.mark.django_db
def test_only_what_answers_agents_can_have_a_price(client: Client) -> None:
    owner = factories.member(Role.OWNER)
    registration.register_served(
        workspace=owner.workspace, name="clerk", base_url="https://models.example.org/v1", model="m", by=owner.user
    )
    factories.policy(of=owner.workspace, name="expert")  # acts inside Retrace, and answers no calls
    client.force_login(owner.user)
    page = client.get("/settings/usage/").content.decode()
    assert ">clerk</option>" in page
    assert "expert" not in page
    client.force_login(factories.member(Role.OWNER).user)
    page = client.get("/settings/usage/").content.decode()
    assert "Set the price" not in page
    assert "add an endpoint" in page
