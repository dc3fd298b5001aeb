"""Traffic splits over REST."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership, Role
from apps.gateway.sessions import finish_session
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import open_split_session
from apps.policies.models import Policy
from apps.policies.promotions import champion
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher(client: Client) -> Membership:
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


@pytest.fixture
def policies(researcher: Membership) -> tuple[Policy, Policy, Policy]:
    home = researcher.workspace
    return tuple(factories.served_policy(of=home, name=name) for name in ("old", "new", "newer"))  # type: ignore[return-value]


def send(client: Client, name: str, body: dict[str, Any] | None = None, *args: object) -> Any:
    return client.post(reverse(f"v1:{name}", args=args), body or {}, content_type="application/json")


def make(client: Client, policies: Any, **changes: Any) -> Any:
    body = {
        "name": "support",
        "environment": "shop",
        "champion": str(policies[0].pk),
        "arms": [{"policy": str(policies[0].pk), "weight": 3}, {"policy": str(policies[1].pk)}],
        **changes,
    }
    return send(client, "traffic_splits", body)


def test_a_split_is_made_and_its_environment_gets_a_champion(client: Client, policies: Any, researcher: Any) -> None:
    answer = make(client, policies, canary={"policy": str(policies[2].pk), "percent": 5}, unit="task")
    assert answer.status_code == 201, answer.text
    reply = answer.json()
    assert [(arm["policy_name"], arm["weight"], arm["is_canary"]) for arm in reply["arms"]] == [
        ("old", 3, False),
        ("new", 1, False),
        ("newer", 5, True),
    ]
    assert (reply["is_on"], reply["unit"], reply["champion"]) == (True, "task", str(policies[0].pk))
    shares = {arm["policy"]: round(arm["share"], 4) for arm in reply["figures"]["arms"]}
    assert list(shares.values()) == [0.7125, 0.2375, 0.05]  # 95 % split 3 to 1, plus the canary's 5 %
    assert champion(workspace=researcher.workspace, environment="shop") == policies[0]
    actions = AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert list(actions) == ["promoted", "made traffic split"]
    assert client.get(answer["Location"]).json() == reply
    assert [split["name"] for split in client.get(reverse("v1:traffic_splits")).json()["results"]] == ["support"]


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"name": "two words"}, "name", "expected letters"),
        ({"name": "old"}, "name", "There is a policy 'old'"),
        ({"arms": []}, "arms", "at least one arm"),
        ({"champion": None}, "champion", "shop has no champion yet"),
    ],
)
def test_what_cannot_be_is_refused_with_words(
    client: Client, policies: Any, change: dict[str, Any], field: str, words: str
) -> None:
    answer = make(client, policies, **change)
    assert answer.status_code == 400
    assert words in answer.json()["fields"][field][0]
    assert not TrafficSplit.objects.exists()
    assert champion(workspace=policies[0].workspace, environment="shop") is None


def test_arms_are_policies_of_the_workspace_that_are_served_each_once(client: Client, policies: Any) -> None:
    elsewhere = factories.served_policy()
    script = factories.policy(of=policies[0].workspace, name="script")
    for arms, words in (
        ([elsewhere], "There is no policy"),
        ([script], "script: not served anywhere"),
        ([policies[0], policies[0]], "given twice"),
        ([factories.served_policy(of=policies[0].workspace) for _ in range(6)], "expected 5 at most"),
    ):
        answer = make(client, policies, arms=[{"policy": str(arm.pk)} for arm in arms])
        assert words in answer.json()["fields"]["arms"][0]


def test_a_name_is_taken_once(client: Client, policies: Any) -> None:
    assert make(client, policies).status_code == 201
    assert "already" in make(client, policies).json()["fields"]["name"][0]


def test_another_champion_than_the_one_there_is_isnt_made_by_the_way(client: Client, policies: Any) -> None:
    make(client, policies)
    answer = make(client, policies, name="other", champion=str(policies[1].pk))
    assert "old is the champion of shop" in answer.json()["fields"]["champion"][0]
    assert make(client, policies, name="other", champion=None).status_code == 201


def test_changing_the_arms_keeps_what_they_are_drawn_for(client: Client, policies: Any) -> None:
    pk = make(client, policies, unit="unit").json()["id"]
    arms = [{"policy": str(policies[1].pk), "weight": 2}]
    assert send(client, "traffic_split", {"arms": arms}, pk).json()["unit"] == "unit"
    assert send(client, "traffic_split", {"arms": arms, "unit": "session"}, pk).json()["unit"] == "session"


def test_arms_are_changed_and_the_split_is_switched(client: Client, policies: Any) -> None:
    pk = make(client, policies).json()["id"]
    before = TrafficSplit.objects.get()
    changed = send(client, "traffic_split", {"arms": [{"policy": str(policies[1].pk), "weight": 2}]}, pk).json()
    assert [arm["policy_name"] for arm in changed["arms"]] == ["new"]
    assert TrafficSplit.objects.get().arms_changed_at > before.arms_changed_at
    for is_on in (False, False, True):
        assert send(client, "traffic_split_switch", {"is_on": is_on}, pk).json()["is_on"] is is_on
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))[2:]
    assert actions == ["changed traffic split", "turned traffic split off", "turned traffic split on"]


def test_a_split_goes_as_long_as_no_session_rests_on_it(client: Client, policies: Any, researcher: Any) -> None:
    pk = make(client, policies).json()["id"]
    open_split_session(split=TrafficSplit.objects.get(), by=researcher.user, unit="x")
    refused = send(client, "traffic_split_remove", None, pk)
    assert (refused.status_code, TrafficSplit.objects.count()) == (409, 1)
    other = make(client, policies, name="other").json()["id"]
    assert send(client, "traffic_split_remove", None, other).status_code == 200
    assert TrafficSplit.objects.count() == 1


def test_figures_are_by_whom_was_drawn_and_count_units_once(client: Client, policies: Any, researcher: Any) -> None:
    pk = make(client, policies, arms=[{"policy": str(policies[1].pk)}]).json()["id"]
    split = TrafficSplit.objects.get()
    for number in range(8):  # four sessions of one user that fail, and four users who succeed
        session = open_split_session(split=split, by=researcher.user, unit="ann" if number < 4 else str(number)).session
        finish_session(session=session, success=number >= 4)
    session = open_split_session(split=split, by=researcher.user, unit="ben").session
    session.failover, session.policy = "It was away.", policies[0]
    session.save()
    finish_session(session=session, success=True)
    [arm] = client.get(reverse("v1:traffic_split", args=[pk])).json()["figures"]["arms"]
    assert (arm["sessions"], arm["failed_over"]) == (9, 1)
    assert (arm["success"]["sessions"], arm["success"]["units"]) == (9, 6)
    assert arm["success"]["value"] == pytest.approx(5 / 6)  # ann 0, five users 1 each


def test_shares_that_chance_would_not_explain_are_an_alarm(client: Client, policies: Any, researcher: Any) -> None:
    pk = make(client, policies, arms=[{"policy": str(policy.pk)} for policy in policies[:2]]).json()["id"]
    split = TrafficSplit.objects.get()
    made = [open_split_session(split=split, by=researcher.user, unit=str(number)).session for number in range(60)]
    figures = client.get(reverse("v1:traffic_split", args=[pk])).json()["figures"]
    assert figures["mismatch"] > 0.001
    for session in made:  # as if those of one arm had got lost
        session.drawn = policies[0] if session.pk.int % 10 else policies[1]
        session.save()
    figures = client.get(reverse("v1:traffic_split", args=[pk])).json()["figures"]
    assert figures["mismatch"] < 0.001


def test_what_is_read_of_a_split_costs_as_much_with_three_arms_as_with_one(
    client: Client, policies: Any, django_assert_max_num_queries: Any
) -> None:
    for count, name in ((1, "one"), (3, "three")):
        arms = [{"policy": str(policy.pk)} for policy in policies[:count]]
        pk = make(client, policies, name=name, arms=arms).json()["id"]
        with django_assert_max_num_queries(14):
            client.get(reverse("v1:traffic_split", args=[pk]))
