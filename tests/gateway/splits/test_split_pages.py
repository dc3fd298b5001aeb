"""The pages of traffic splits: creating, changing, and turning them off."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.accounts.recent_sign_in import GIVEN_AT
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import open_split_session
from apps.policies.models import Policy
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher(client: Client) -> Membership:
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


@pytest.fixture
def policies(researcher: Membership) -> list[Policy]:
    return [factories.served_policy(of=researcher.workspace, name=name) for name in ("old", "new", "newer")]


def form(policies: list[Policy], **changes: object) -> dict[str, object]:
    return {
        "name": "support",
        "environment": "shop",
        "champion": policies[0].pk,
        "unit": "session",
        "policy_1": policies[0].pk,
        "weight_1": 3,
        "policy_2": policies[1].pk,
        "weight_2": 1,
        "canary": policies[2].pk,
        "percent": 10,
        **changes,
    }


def arms() -> list[tuple[str, int, bool]]:
    return list(TrafficSplit.objects.get().arms.order_by("pk").values_list("policy__name", "weight", "is_canary"))


def test_without_one_the_list_offers_to_make_one(client: Client, researcher: Membership) -> None:
    page = client.get(reverse("gateway:splits")).text
    assert "No traffic splits yet" in page
    assert reverse("gateway:new_split") in page


def test_a_split_is_made_and_its_page_shows_who_answers(client: Client, policies: list[Policy]) -> None:
    made = client.post(reverse("gateway:new_split"), form(policies))
    assert made.status_code == 302, made.text
    assert arms() == [("old", 3, False), ("new", 1, False), ("newer", 10, True)]
    page = client.get(made["Location"]).text
    assert "old, the champion of shop, answers where an arm can't be reached" in page
    assert "68 %" in page  # 90 % split 3 to 1: 67.5 %
    assert '"split": "support"' in page.replace("&quot;", '"')
    assert "support" in client.get(reverse("gateway:splits")).text


def test_a_refusal_stands_at_its_field_and_nothing_is_lost(client: Client, policies: list[Policy]) -> None:
    page = client.post(reverse("gateway:new_split"), form(policies, name="two words", weight_1=7))
    assert page.status_code == 422
    assert "expected letters, digits" in page.text
    assert 'value="7"' in page.text
    twice = client.post(reverse("gateway:new_split"), form(policies, policy_2=policies[0].pk))
    assert "The same policy is given twice" in twice.text
    assert not TrafficSplit.objects.exists()


def test_only_served_policies_of_the_workspace_can_be_chosen(client: Client, policies: list[Policy]) -> None:
    for other in (factories.served_policy(), factories.policy(of=policies[0].workspace)):
        assert client.post(reverse("gateway:new_split"), form(policies, policy_1=other.pk)).status_code == 422


def test_the_form_of_a_change_shows_what_is_there(client: Client, policies: list[Policy]) -> None:
    client.post(reverse("gateway:new_split"), form(policies))
    split = TrafficSplit.objects.get()
    path = reverse("gateway:change_split", args=[split.pk])
    page = client.get(path).text
    assert f'value="{policies[2].pk}" selected' in page
    assert 'name="weight_1" value="3"' in page
    same = {"unit": "session", "policy_1": policies[1].pk, "weight_1": 5, "policy_3": policies[0].pk, "weight_3": 2}
    assert client.post(path, same).status_code == 302
    assert arms() == [("new", 5, False), ("old", 2, False)]


def test_the_form_of_a_change_drops_no_arm(client: Client, policies: list[Policy], researcher: Membership) -> None:
    home = researcher.workspace
    five = [*policies, *(factories.served_policy(of=home, name=name) for name in ("fourth", "fifth"))]
    split = factories.traffic_split(of=home, arms=five, environment="shop")
    Policy.objects.filter(name="new").update(location="")  # it isn't served anymore
    path = reverse("gateway:change_split", args=[split.pk])
    page = client.get(path).text
    assert [f'value="{policy.pk}" selected' in page for policy in five] == [True] * 5
    shown = {f"policy_{number}": policy.pk for number, policy in enumerate(five, start=1)}
    weights = {f"weight_{number}": arm.weight for number, arm in enumerate(split.arms.order_by("pk"), start=1)}
    same = {"unit": split.unit, **shown, **weights}
    assert client.post(path, same).status_code == 302
    assert len(arms()) == 5
    assert "new: not served anywhere" in client.post(path, {**same, "weight_1": 7}).text
    assert client.post(path, {**same, "weight_1": 7, "policy_2": ""}).status_code == 302
    assert [name for name, *_ in arms()] == ["old", "newer", "fourth", "fifth"]


def test_of_two_tabs_the_second_overwrites_no_arms(client: Client, policies: list[Policy]) -> None:
    client.post(reverse("gateway:new_split"), form(policies))
    path = reverse("gateway:change_split", args=[TrafficSplit.objects.get().pk])
    opened = re.search(r'name="seen" value="([^"]+)"', client.get(path).text)
    assert opened is not None
    sent = {"unit": "session", "policy_1": policies[0].pk, "weight_1": 1, "seen": opened[1]}
    assert client.post(path, {**sent, "policy_2": policies[1].pk, "weight_2": 8}).status_code == 302
    assert "Somebody changed these arms meanwhile" in client.post(path, {**sent, "weight_1": 5}).text
    assert arms() == [("old", 1, False), ("new", 8, False)]


def test_one_click_turns_it_off_without_a_question_hours_later(client: Client, policies: list[Policy]) -> None:
    client.post(reverse("gateway:new_split"), form(policies))
    session = client.session
    session[GIVEN_AT] -= 4 * 3600
    session.save()
    split = TrafficSplit.objects.get()
    off = client.post(reverse("gateway:switch_split", args=[split.pk]), {"is_on": "no"}, follow=True).text
    assert "Off: old, the champion of shop, answers every new session." in off
    response = client.post(reverse("gateway:change_split", args=[split.pk]), {"policy_1": policies[1].pk})
    assert "enter your password" in response.text
    assert len(arms()) == 3


def test_a_split_that_sessions_rest_on_stays(client: Client, policies: list[Policy], researcher: Membership) -> None:
    client.post(reverse("gateway:new_split"), form(policies))
    split = TrafficSplit.objects.get()
    path = reverse("gateway:remove_split", args=[split.pk])
    open_split_session(split=split, by=researcher.user, unit="x")
    assert "Sessions use support" in client.post(path, follow=True).text
    split.sessions.all().delete()
    assert client.post(path).status_code == 302
    assert not TrafficSplit.objects.exists()


def test_a_session_that_failed_over_says_so_on_its_page(
    client: Client, policies: list[Policy], researcher: Membership
) -> None:
    split = factories.traffic_split(of=researcher.workspace, arms=policies[:1], name="support")
    session = open_split_session(split=split, by=researcher.user, unit="x").session
    session.drawn, session.failover = policies[1], "Its server was away."
    session.save()
    page = client.get(reverse("gateway:session", args=[session.pk])).text
    assert reverse("gateway:split", args=[split.pk]) in page
    assert "in place of new, which was unreachable" in page


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER])
def test_who_labels_finds_none_of_it(client: Client, policies: list[Policy], role: Role) -> None:
    split = factories.traffic_split(of=policies[0].workspace)
    client.force_login(factories.member(role, of=policies[0].workspace).user)
    for path in (reverse("gateway:splits"), reverse("gateway:split", args=[split.pk])):
        assert client.get(path).status_code == 404
