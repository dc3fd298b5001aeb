"""Registering policies over REST, their endpoints, and champions."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import Role
from apps.policies import promotions
from apps.policies.models import Policy
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def member() -> Any:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def client(member: Any) -> Client:
    return Client(headers={"Authorization": f"Bearer {factories.token(member)}"})


def send(client: Client, address: str, **fields: object) -> Any:
    return client.post(f"/api/v1/{address}", fields, content_type="application/json")


def test_a_served_model_is_registered_with_its_server(client: Client) -> None:
    made = send(
        client, "policies", kind="endpoint", name="qwen", location="qwen3", base_url="http://127.0.0.1:8000/v1/"
    )
    assert (made.status_code, made.json()["kind"], made.json()["location"]) == (201, "endpoint", "qwen3")
    [listed] = client.get("/api/v1/endpoints").json()["results"]
    assert (listed["base_url"], listed["replicas"], listed["key_variable"]) == ("http://127.0.0.1:8000/v1", [], "")


def test_what_cannot_be_registered_is_refused_by_its_field(client: Client) -> None:
    assert list(send(client, "policies", kind="model", name="x").json()["fields"]) == ["location"]
    send(client, "policies", kind="model", name="x", location="Qwen/Qwen3-0.6B")
    twice = send(client, "policies", kind="model", name="x", location="Qwen/Qwen3-0.6B")
    assert (twice.status_code, list(twice.json()["fields"])) == (400, ["name"])
    secret = send(
        client,
        "policies",
        kind="endpoint",
        name="y",
        location="m",
        base_url="http://127.0.0.1:1/v1",
        key_variable="SECRET_KEY",
    )
    assert (secret.status_code, list(secret.json()["fields"])) == (400, ["base_url"])
    assert Policy.objects.count() == 1


def test_a_champion_is_rolled_back(client: Client, member: Any) -> None:
    first, second = factories.policy(of=member.workspace), factories.policy(of=member.workspace)
    for policy in (first, second):
        promotions.promote(policy=policy, environment="shop", by=member.user, reason="Better.")
    [listed] = client.get("/api/v1/champions").json()["results"]
    assert (listed["environment"], listed["policy"]) == ("shop", str(second.pk))
    back = send(client, "champions/roll-back", environment="shop", reason="Worse on refunds.")
    assert (back.status_code, back.json()["policy"], back.json()["is_rollback"]) == (201, str(first.pk), True)
    again = send(client, "champions/roll-back", environment="shop", reason="Worse.")
    assert (again.status_code, again.json()["detail"]) == (409, "shop had no champion before this one.")


def test_scripts_that_roll_back_the_same_champion_at_once_go_back_one(client: Client, member: Any) -> None:
    policies = [factories.policy(of=member.workspace) for _ in range(3)]
    for policy in policies:
        promotions.promote(policy=policy, environment="shop", by=member.user, reason="Better.")
    answers = [
        send(client, "champions/roll-back", environment="shop", reason="Worse.", champion=str(policies[-1].pk))
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 409]
    assert promotions.champion(workspace=member.workspace, environment="shop") == policies[1]
