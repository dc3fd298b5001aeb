"""Members and invitations over REST: what owners' tokens may do, and what no token may."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import ApiToken, AuditEntry, Invitation, Membership, Role
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Membership:
    return factories.member(Role.OWNER, name="Ada")


@pytest.fixture
def ben(ada: Membership) -> Membership:
    return factories.member(Role.ANNOTATOR, of=ada.workspace, name="Ben")


def api(member: Membership) -> Client:
    return Client(headers={"Authorization": f"Bearer {factories.token(member)}"})


def send(client: Client, address: str, **fields: object) -> Any:
    return client.post(f"/api/v1/{address}", fields, content_type="application/json")


def test_members_are_listed_with_their_roles_by_name(ada: Membership, ben: Membership) -> None:
    listed = api(ada).get("/api/v1/members").json()["results"]
    assert [(entry["id"], entry["name"], entry["role"]) for entry in listed] == [
        (ben.pk, "Ben", "annotator"),
        (ada.pk, "Ada", "owner"),
    ]


def test_a_role_is_changed_and_written_down(ada: Membership, ben: Membership) -> None:
    answer = send(api(ada), f"members/{ben.pk}/role", role="researcher")
    assert (answer.status_code, answer.json()["role"]) == (200, "researcher")
    entry = AuditEntry.objects.get(action="changed the role of")
    assert (entry.actor, entry.subject) == (ada.user, "Ben from Annotator to Researcher")


def test_nobody_becomes_an_owner_and_no_owner_is_changed_or_removed(ada: Membership, ben: Membership) -> None:
    cyd = factories.member(Role.OWNER, of=ada.workspace, name="Cyd")
    client = api(ada)
    raised = send(client, f"members/{ben.pk}/role", role="owner")
    assert (raised.status_code, list(raised.json()["fields"])) == (400, ["role"])
    assert send(client, "invitations", email="eve@example.org", role="owner").status_code == 400
    for address, fields in ((f"members/{cyd.pk}/role", {"role": "annotator"}), (f"members/{cyd.pk}/remove", {})):
        answer = send(client, address, **fields)
        assert (answer.status_code, "Cyd is an owner." in answer.json()["detail"]) == (409, True)
    cyd.refresh_from_db()
    assert (cyd.role, Invitation.objects.count()) == (Role.OWNER, 0)


def test_a_member_is_removed_with_their_tokens(ada: Membership, ben: Membership) -> None:
    factories.token(ben)
    client = api(ada)
    assert send(client, f"members/{ben.pk}/remove").json()["email"] == ben.user.email
    assert not Membership.objects.filter(pk=ben.pk).exists()
    assert ApiToken.objects.count() == 1  # Ada's
    assert send(client, f"members/{ben.pk}/remove").status_code == 404


def test_an_invitation_answers_its_link_once_and_can_be_revoked(ada: Membership, ben: Membership) -> None:
    client = api(ada)
    made = send(client, "invitations", email="dan@example.org", role="reviewer").json()
    assert Client().get(made["link"]).status_code == 200
    [listed] = client.get("/api/v1/invitations").json()["results"]
    assert (listed["email"], listed["role"], "link" in listed) == ("dan@example.org", "reviewer", False)
    twice = send(client, "invitations", email=ben.user.email.upper())
    assert (twice.status_code, list(twice.json()["fields"])) == (400, ["email"])
    assert send(client, f"invitations/{made['id']}/revoke").status_code == 200
    assert send(client, f"invitations/{made['id']}/revoke").status_code == 409
    assert Client().get(made["link"]).status_code == 404


def test_no_address_of_the_api_makes_tokens_or_changes_passwords(ada: Membership) -> None:
    client = api(ada)
    for name in ("issue_token", "change_password", "found"):
        assert client.post(reverse(f"accounts:{name}")).status_code == 302  # a page: redirects to the sign-in page
    assert ApiToken.objects.count() == 1
