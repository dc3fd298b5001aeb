"""Sessions of a split: routed to one arm and kept there, without revealing it, and to the champion if the arm can't be reached."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import httpx
import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership
from apps.common.ids import new_id
from apps.gateway import asgi, upstream
from apps.gateway.models import Call, Session
from apps.gateway.sessions import finish_session
from apps.gateway.spending import terms
from apps.gateway.splits.blind_replies import REFUSED, TOO_LONG, hide
from apps.gateway.splits.changes import ArmPlan, change_split, switch
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import fail_over, open_split_session
from apps.gateway.upstream import FAILURES, Upstreams
from apps.policies.models import Policy
from apps.policies.promotions import champion, promote
from tests import factories
from tests.gateway.splits.conftest import Arms
from tests.gateway.upstream import Upstream

ASK = {"role": "user", "content": "Where is the lamp?"}
SplitOf = Callable[..., TrafficSplit]


class Agent:
    """Opens sessions over REST, makes calls in them, and keeps all responses."""

    def __init__(self, gateway: str, member: Membership) -> None:
        self.rest = Client()
        self.headers = {"Authorization": f"Bearer {factories.token(member)}"}
        self.gateway = httpx.Client(base_url=gateway, timeout=30)
        self.received: list[str] = []

    def open(self, **fields: Any) -> dict[str, Any]:
        answer = self.send(reverse("v1:sessions"), {"split": "support", **fields})
        assert answer.status_code == 201, answer.content
        return dict(answer.json())

    def send(self, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self.rest.post(path, body or {}, content_type="application/json", headers=self.headers)
        self.received.append(answer.content.decode() + str(answer.headers))
        return answer

    def ask(self, session: dict[str, Any], **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {session['api_key']}"}
        body = {"model": "gpt-5", "messages": [ASK], **more}
        response = self.gateway.post("chat/completions", json=body, headers=headers)
        self.received.append(response.text + str(response.headers))
        return response

    def models(self, key: str) -> list[str]:
        response = self.gateway.get("models", headers={"Authorization": f"Bearer {key}"})
        self.received.append(response.text)
        return [card["id"] for card in response.json()["data"]]


@pytest.fixture
def agent(gateway_url: str, researcher: Membership, arms: Arms) -> Iterator[Agent]:
    made = Agent(gateway_url, researcher)
    with made.gateway:
        yield made


def stored(opened: dict[str, Any]) -> Session:
    return Session.objects.select_related("policy", "drawn").get(pk=opened["id"])


def policies_of(agent: Agent, count: int, **fields: Any) -> list[Policy]:
    return [stored(agent.open(**fields)).policy for _ in range(count)]  # type: ignore[misc]  # a split's sessions have one


def test_sessions_are_drawn_by_weight(agent: Agent, arms: Arms, split_of: SplitOf) -> None:
    split_of(1, 1)
    policies = policies_of(agent, 24)
    assert set(policies) == {
        arms.champion,
        arms.challenger,
    }  # all on one side has a probability of one in eight million


def test_a_unit_always_has_the_same_arm(agent: Agent, split_of: SplitOf) -> None:
    split_of(1, 1, unit="unit")
    for user in ("ann", "ben", 7):
        assert len(set(policies_of(agent, 4, metadata={"unit": user}))) == 1
    by_user = {policies_of(agent, 1, metadata={"unit": f"user {number}"})[0] for number in range(24)}
    assert len(by_user) == 2


def test_a_task_always_has_the_same_arm(agent: Agent, split_of: SplitOf) -> None:
    split_of(1, 1, unit="task")
    for number in range(3):
        assert len(set(policies_of(agent, 4, task={"instruction": f"Refund order {number}."}))) == 1


def test_an_open_session_keeps_its_policy_whatever_becomes_of_the_split(
    agent: Agent, arms: Arms, split_of: SplitOf, researcher: Membership
) -> None:
    split = split_of(0, 1)
    opened = agent.open()
    change_split(split=split, arms=[ArmPlan(arms.champion, 1)], by=researcher.user)
    switch(split=split, is_on=False, by=researcher.user)
    assert agent.ask(opened).json()["choices"][0]["message"]["content"] == "From the challenger."
    assert stored(agent.open()).policy == arms.champion


def test_off_the_champion_answers_all_new_sessions(
    agent: Agent, arms: Arms, split_of: SplitOf, researcher: Membership
) -> None:
    switch(split=split_of(0, 1), is_on=False, by=researcher.user)
    session = stored(agent.open())
    assert (session.policy, session.drawn, session.failover) == (arms.champion, None, "")
    promote(policy=arms.challenger, environment="shop", by=researcher.user, reason="Better.")
    assert stored(agent.open()).policy == arms.challenger


def test_sampling_settings_of_a_policy_hold_for_the_session(agent: Agent, arms: Arms, split_of: SplitOf) -> None:
    Policy.objects.filter(pk=arms.challenger.pk).update(settings={"sampling": {"temperature": 0.2, "seed": 3}})
    split_of(0, 1)
    opened = agent.open()
    Policy.objects.filter(pk=arms.challenger.pk).update(settings={})
    agent.ask(opened, temperature=1.5, top_p=0.9)
    sent = arms.servers[1].requests[0]
    assert (sent["temperature"], sent["top_p"], sent.get("seed"), sent["model"]) == (0.2, 0.9, None, "new-model")


def test_nothing_that_the_agent_is_told_names_the_arm(
    agent: Agent, arms: Arms, split_of: SplitOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = arms.servers[1]
    plain = server.completion

    def marked(body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
        reply = plain(body, message)
        reply["choices"][0]["served_by"] = "new-model"
        reply["choices"][0]["message"] |= {
            "provider_specific_fields": {"by": "new-model"},
            "annotations": [],
            "audio": None,
        }
        reply["created"] = 1
        reply["usage"] |= {"provider": "new-model", "prompt_tokens_details": {"cached_by": "new-model"}}
        return {**reply, "system_fingerprint": "new-model", "provider": "new-model", "id": "new-model-17"}

    monkeypatch.setattr(server, "completion", marked)
    split_of(0, 1)
    opened = agent.open()
    assert (opened["policy"], opened["policy_name"], opened["split"], opened["drawn"]) == (
        None,
        "support",
        "support",
        None,
    )
    whole = agent.ask(opened).json()
    assert whole["model"] == "gpt-5"
    assert whole["created"] > 1
    assert set(whole["choices"][0]["message"]) == {"role", "content"}
    assert set(whole["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}
    streamed = agent.ask(opened, stream=True, stream_options={"include_usage": True})
    pieces = [json.loads(line[6:]) for line in streamed.text.split("\n\n") if line.startswith("data: {")]
    assert {piece["model"] for piece in pieces} == {"gpt-5"}
    assert len({piece["id"] for piece in pieces}) == 1
    assert agent.models(opened["api_key"]) == ["support"]
    server.status, server.error = (
        404,
        b'{"error": {"message": "http://new.example has no new-model.", "type": "NewError", "code": "new", "owner": "new"}}',
    )
    refused = agent.ask(opened)
    error = {"message": REFUSED[400], "type": "invalid_request_error", "param": None, "code": None}
    assert (refused.status_code, refused.json()) == (400, {"error": error})
    server.error = b"<html>new-model"
    assert (agent.ask(opened).status_code, agent.ask(opened).json()) == (400, {"error": error})
    server.status, server.error = 400, b'{"message": "new-model has a maximum context length of 4096 tokens."}'
    assert agent.ask(opened).json()["error"]["code"] == TOO_LONG
    server.status, server.error = 503, b'{"error": {"message": "new-model is too hot"}}'
    assert (agent.ask(opened).status_code, agent.ask(opened).json()["error"]["message"]) == (502, REFUSED[502])
    for name in ("renew", "finish"):
        assert agent.send(reverse(f"v1:session_{name}", args=[opened["id"]])).status_code == 200
    responses = "".join(agent.received)
    assert "new" not in responses.replace("renew", "")
    assert str(arms.challenger.pk) not in responses
    assert "challenger" in responses  # the policy's own text can't be hidden


def test_what_an_open_session_has_come_to_doesnt_name_the_arm(
    agent: Agent, arms: Arms, split_of: SplitOf, researcher: Membership
) -> None:
    split_of(0, 1)
    opened = agent.open()
    agent.ask(opened)
    read = agent.rest.get(reverse("v1:session", args=[opened["id"]]), headers=agent.headers)
    trace = agent.rest.get(reverse("v1:session_trace", args=[opened["id"]]), headers=agent.headers)
    listed = agent.rest.get(reverse("v1:sessions"), headers=agent.headers)
    for answer in (read, trace, listed):
        assert str(arms.challenger.pk) not in answer.text
        assert "support" in answer.text
    assert (trace.json()["trajectory"]["policy"], trace.json()["cost"]) == ("support", None)


def test_an_ended_session_says_who_answered(agent: Agent, arms: Arms, split_of: SplitOf) -> None:
    split_of(0, 1)
    opened = agent.open()
    agent.ask(opened)
    finish_session(session=stored(opened), success=True)
    read = agent.rest.get(reverse("v1:session", args=[opened["id"]]), headers=agent.headers).json()
    assert (read["policy_name"], read["drawn"]) == ("new", str(arms.challenger.pk))


def call(agent: Agent, name: str, **more: Any) -> httpx.Response:
    body = {"model": "support", "messages": [ASK], **more}
    return agent.gateway.post("chat/completions", json=body, headers={**agent.headers, "X-Session-Id": name})


def test_an_agent_with_a_token_asks_for_a_split_by_its_name(agent: Agent, arms: Arms, split_of: SplitOf) -> None:
    split_of(0, 1)
    assert call(agent, "ticket-17").json()["model"] == "support"
    assert call(agent, "ticket-17", messages=[ASK, ASK]).status_code == 200
    session = Session.objects.get()
    assert (session.policy, session.name, session.calls.count()) == (arms.challenger, "ticket-17", 2)
    assert agent.models(agent.headers["Authorization"][7:]) == ["support", "new", "old"]


def test_the_user_of_a_request_is_its_unit(agent: Agent, split_of: SplitOf) -> None:
    split_of(1, 1, unit="unit")
    for number in range(6):
        call(agent, f"a{number}", user="ann")
        call(agent, f"b{number}", metadata={"unit": "ben"}, user=f"somebody {number}")
    for letter in "ab":
        assert len({session.policy for session in Session.objects.filter(name__startswith=letter)}) == 1


def test_the_first_message_is_the_task_of_a_request(agent: Agent, split_of: SplitOf) -> None:
    split_of(1, 1, unit="task")
    for number in range(6):
        call(agent, f"s{number}")
    assert len(set(Session.objects.values_list("policy", flat=True))) == 1
    assert Session.objects.first().task == {}  # type: ignore[union-attr]  # there are six


def test_a_session_of_a_name_is_one_for_a_split_and_one_for_a_policy(
    agent: Agent, arms: Arms, split_of: SplitOf
) -> None:
    split_of(0, 1)
    assert call(agent, "ticket-17").status_code == call(agent, "ticket-17", model="new").status_code == 200
    assert list(Session.objects.order_by("id").values_list("split__name", flat=True)) == ["support", None]


def go_away(server: Upstream) -> None:
    server.http.shutdown()
    server.http.server_close()


def test_where_an_arm_cant_be_reached_the_champion_answers_and_the_session_says_so(
    agent: Agent, arms: Arms, split_of: SplitOf
) -> None:
    split_of(0, 1)
    opened = agent.open()
    go_away(arms.servers[1])
    assert agent.ask(opened).json()["choices"][0]["message"]["content"] == "From the champion."
    session = stored(opened)
    assert (session.policy, session.drawn) == (arms.champion, arms.challenger)
    assert session.failover == "The policy's server can't be reached. Try again later, or tell whoever runs it."
    assert Call.objects.get(session=session).status == "ok"
    assert arms.servers[0].requests[0]["model"] == "old-model"
    assert agent.ask(opened, messages=[ASK, ASK]).status_code == 200  # and it stays there


def test_a_call_that_the_champion_answers_instead_has_the_champions_price(
    agent: Agent, arms: Arms, split_of: SplitOf, researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "CACHE_SECONDS", 0.0)
    by = {"workspace": researcher.workspace, "by": researcher.user}
    terms.set_price(**by, policy=arms.challenger, input=Decimal(1000), output=Decimal(0))
    split_of(0, 1)
    go_away(arms.servers[1])
    assert agent.ask(agent.open()).status_code == 200
    assert Call.objects.get().cost is None  # it has none yet
    terms.set_limits(**by, limits={"dollars_a_day": Decimal(5)})
    refused = agent.ask(agent.open())
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "price_unknown")
    assert len(arms.servers[0].requests) == 1
    terms.set_price(**by, policy=arms.champion, input=Decimal(2), output=Decimal(0))
    opened = agent.open()
    assert agent.ask(opened).status_code == 200
    call = Call.objects.get(session=opened["id"])
    assert call.cost == call.prompt_tokens * Decimal("0.000002")  # type: ignore[operator]  # the server counts them


def test_once_an_arm_has_answered_nobody_else_goes_on_with_its_session(
    agent: Agent, arms: Arms, split_of: SplitOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    split_of(0, 1)
    opened = agent.open()
    agent.ask(opened)
    go_away(arms.servers[1])
    monkeypatch.setattr(asgi, "upstreams", Upstreams())  # has no open connections yet
    refused = agent.ask(opened, messages=[ASK, ASK])
    assert refused.status_code == 502
    assert (stored(opened).policy, stored(opened).failover) == (arms.challenger, "")


def test_a_call_that_may_have_been_computed_isnt_asked_of_another(agent: Agent, arms: Arms, split_of: SplitOf) -> None:
    split_of(0, 1)
    opened = agent.open()
    arms.servers[1].status = 503
    assert agent.ask(opened).status_code == 502
    assert arms.servers[0].requests == []


def test_after_some_failures_an_arm_isnt_tried_for_a_while(
    agent: Agent, arms: Arms, split_of: SplitOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    send = asgi.upstreams.send

    async def counted(destination: Any, *rest: Any, **more: Any) -> Any:
        tried.append(destination.addresses[0])
        return await send(destination, *rest, **more)

    monkeypatch.setattr(asgi.upstreams, "send", counted)
    split_of(0, 1)
    away = arms.servers[1].url
    go_away(arms.servers[1])
    for _ in range(FAILURES + 2):
        assert agent.ask(agent.open()).status_code == 200
    assert tried.count(away) == FAILURES
    assert tried.count(arms.servers[0].url) == FAILURES + 2
    monkeypatch.setattr(upstream, "AWAY_SECONDS", -1.0)  # as after the cool-down
    assert agent.ask(agent.open()).status_code == 200
    assert tried.count(away) == FAILURES + 1


def test_an_arm_that_isnt_served_any_more_is_failed_over_when_the_session_begins(
    agent: Agent, arms: Arms, split_of: SplitOf
) -> None:
    split_of(0, 1)
    Policy.objects.filter(pk=arms.challenger.pk).update(location="")
    session = stored(agent.open())
    assert (session.policy, session.drawn, session.failover) == (
        arms.champion,
        arms.challenger,
        "new isn't served anywhere.",
    )


def test_where_the_champion_is_the_one_that_cant_be_reached_the_agent_is_told(
    agent: Agent, arms: Arms, split_of: SplitOf
) -> None:
    split_of(1)
    opened = agent.open()
    go_away(arms.servers[0])
    refused = agent.ask(opened)
    assert (refused.status_code, refused.json()["error"]["code"]) == (502, "upstream_away")
    assert stored(opened).failover == ""


def test_a_split_that_isnt_there_or_a_policy_beside_one_is_refused(
    agent: Agent, arms: Arms, split_of: SplitOf, researcher: Membership
) -> None:
    split_of(1, 1)
    for body, field in (
        ({"split": "nobody"}, "split"),
        ({"split": "support", "policy": "old"}, "policy"),
        ({}, "policy"),
    ):
        answer = agent.send(reverse("v1:sessions"), body)
        assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])


def test_an_outsiders_token_finds_no_split(agent: Agent, split_of: SplitOf, gateway_url: str) -> None:
    split_of(1, 1)
    outsider = Agent(gateway_url, factories.member())
    assert outsider.send(reverse("v1:sessions"), {"split": "support"}).status_code == 400
    with outsider.gateway:
        assert call(outsider, "x").status_code == 404
    assert not Session.objects.exists()


def test_off_without_a_served_champion_nobody_answers(
    agent: Agent, arms: Arms, split_of: SplitOf, researcher: Membership
) -> None:
    switch(split=split_of(0, 1), is_on=False, by=researcher.user)
    Policy.objects.filter(pk=arms.champion.pk).update(location="")
    answer = agent.send(reverse("v1:sessions"), {"split": "support"})
    assert answer.json()["fields"]["split"] == [
        "support has nobody to answer: the champion of shop isn't served anywhere. Publish it, or turn the split on."
    ]
    assert call(agent, "x").status_code == 404
    assert champion(workspace=researcher.workspace, environment="shop") == arms.champion


def test_two_calls_that_find_an_arm_away_at_once_are_led_to_the_champion_together(
    researcher: Membership, arms: Arms, split_of: SplitOf
) -> None:
    session = open_split_session(split=split_of(0, 1), by=researcher.user, unit="x").session
    barrier, led = threading.Barrier(2), []

    def find_out(_: int) -> None:
        try:
            barrier.wait(10)
            led.append(fail_over(session.pk, "It was away."))
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as calls:
        list(calls.map(find_out, range(2)))
    assert [(session.policy, session.served_name, session.endpoint) for session in led] == [
        (arms.champion, "old-model", arms.champion.endpoint)
    ] * 2


def test_a_splits_agent_gets_the_calls_of_custom_tools() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "run", "input": "1", "server": "secret"}}
    reply: dict[str, Any] = {"choices": [{"index": 0, "message": {"role": "assistant", "tool_calls": [call]}}]}
    hide(reply, new_id(), created=1)
    [shown] = reply["choices"][0]["message"]["tool_calls"]
    assert shown == {"id": "c", "type": "custom", "custom": {"name": "run", "input": "1"}}
