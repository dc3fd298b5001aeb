"""Archived policies leave lists and choices; champions can't be archived, and a promotion restores."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import AuditEntry, Membership, Role
from apps.policies import promotions
from apps.policies.archival import IsChampion, archive_policy, restore_policy
from apps.policies.models import Policy
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


@pytest.fixture
def member() -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def policy(member: Membership) -> Policy:
    return factories.policy(of=member.workspace)


def test_an_archived_policy_is_left_out_until_it_is_restored(member: Membership, policy: Policy) -> None:
    client = Client(headers={"Authorization": f"Bearer {factories.token(member)}"})
    other = factories.policy(of=member.workspace)
    address = f"/api/v1/policies/{policy.pk}"

    def listed(**query: str) -> list[str]:
        return [row["id"] for row in client.get("/api/v1/policies", query).json()["results"]]

    for _ in range(2):
        answer = client.post(f"{address}/archive")
        assert (answer.status_code, answer.json()["archived_at"] is not None) == (200, True)
    assert (listed(), listed(archived="true")) == ([str(other.pk)], [str(policy.pk)])
    assert client.get(address).json()["name"] == policy.name
    refused = client.get("/api/v1/policies", {"archived": "perhaps"})
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["archived"])
    for _ in range(2):
        assert client.post(f"{address}/restore").json()["archived_at"] is None
    assert (listed(), listed(archived="true")) == ([str(other.pk), str(policy.pk)], [])
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == ["archived", "restored"]


def test_a_champion_is_not_archived(member: Membership, policy: Policy) -> None:
    promotions.promote(policy=policy, environment="shop", by=member.user, reason="Better.")
    with pytest.raises(IsChampion, match="the champion of shop"):
        archive_policy(policy=policy, by=member.user)
    client = Client(headers={"Authorization": f"Bearer {factories.token(member)}"})
    assert client.post(f"/api/v1/policies/{policy.pk}/archive").status_code == 409
    shown = as_(member).post(f"/policies/{policy.pk}/archive/", follow=True)
    assert "is the champion of shop" in shown.content.decode()
    assert Policy.objects.archived().count() == 0


def test_who_becomes_champion_is_restored(member: Membership, policy: Policy) -> None:
    second = factories.policy(of=member.workspace)
    promotions.promote(policy=policy, environment="shop", by=member.user, reason="First.")
    archive_policy(policy=second, by=member.user)
    promotions.promote(policy=second, environment="shop", by=member.user, reason="Better.")
    archive_policy(policy=policy, by=member.user)
    assert list(Policy.objects.archived()) == [policy]
    promotions.roll_back(workspace=member.workspace, environment="shop", by=member.user, reason="Worse after all.")
    assert list(Policy.objects.archived()) == []


def test_pages_say_what_is_archived_and_restore_it(member: Membership, policy: Policy) -> None:
    client = as_(member)
    other = factories.policy(of=member.workspace)

    def shown(path: str) -> str:
        answer: Any = client.get(path)
        return str(answer.content.decode())

    assert "Archived policies" not in shown("/policies/")
    client.post(f"/policies/{policy.pk}/archive/")
    link = f'href="/policies/{policy.pk}/"'
    assert link not in shown("/policies/")
    assert "Archived policies" in shown("/policies/")
    archived = shown("/policies/archived/")
    assert link in archived
    assert f"/policies/{other.pk}/" not in archived
    client.post(f"/policies/{other.pk}/archive/")
    assert "All policies are archived" in shown("/policies/")
    client.post(f"/policies/{other.pk}/restore/")
    page = shown(f"/policies/{policy.pk}/")
    assert "This policy is archived" in page
    assert 'data-key="o"' not in page  # Roll out
    client.post(f"/policies/{policy.pk}/restore/")
    assert link in shown("/policies/")
    restore_policy(policy=policy, by=member.user)  # has no effect
    assert "No archived policies" in shown("/policies/archived/")
