"""Member pages: changing roles, and who can and can't be removed."""

import pytest

from apps.accounts import invitation_links
from apps.accounts.models import Invitation, Membership, Role
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


def test_an_owner_changes_a_role_and_removes_a_member(owner):
    ben = factories.member(Role.ANNOTATOR, of=owner.workspace, name="Ben")
    client = as_(owner)
    changed = client.post(f"/settings/members/{ben.pk}/role/", {"role": Role.REVIEWER.value}, follow=True)
    assert "Ben is now Reviewer." in changed.content.decode()
    removed = client.post(f"/settings/members/{ben.pk}/remove/", follow=True)
    assert "Ben is no longer in" in removed.content.decode()
    assert not Membership.objects.filter(pk=ben.pk).exists()


def test_a_role_that_does_not_exist_is_refused(owner):
    ben = factories.member(Role.ANNOTATOR, of=owner.workspace)
    assert as_(owner).post(f"/settings/members/{ben.pk}/role/", {"role": "9"}).status_code == 422
    ben.refresh_from_db()
    assert ben.role == Role.ANNOTATOR


def test_the_last_owner_is_told_what_to_do(owner):
    answer = as_(owner).post(f"/settings/members/{owner.pk}/remove/", follow=True).content.decode()
    assert "Make somebody else an owner first." in answer


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER, Role.RESEARCHER])
def test_only_owners_change_members_and_invitations(owner, role):
    client = as_(factories.member(role, of=owner.workspace))
    invitation = invitation_links.invite(
        workspace=owner.workspace, email="ben@example.org", role=Role.ANNOTATOR, by=owner.user
    ).invitation
    for url, data in changes_of(owner, invitation):
        assert client.post(url, data).status_code == 404, url
    assert unchanged(owner, invitation)


def test_an_owner_of_another_workspace_changes_nothing_here(owner):
    invitation = invitation_links.invite(
        workspace=owner.workspace, email="ben@example.org", role=Role.ANNOTATOR, by=owner.user
    ).invitation
    outsider = as_(factories.member(Role.OWNER))
    for url, data in changes_of(owner, invitation):
        if url != "/settings/invitations/":  # that one creates an invitation to the outsider's own workspace
            assert outsider.post(url, data).status_code == 404, url
    assert unchanged(owner, invitation)


def changes_of(owner, invitation):
    return [
        (f"/settings/members/{owner.pk}/role/", {"role": Role.ANNOTATOR.value}),
        (f"/settings/members/{owner.pk}/remove/", {}),
        ("/settings/invitations/", {"email": "eve@example.org", "role": Role.OWNER.value}),
        (f"/settings/invitations/{invitation.pk}/revoke/", {}),
    ]


def unchanged(owner, invitation):
    owner.refresh_from_db()
    return owner.role == Role.OWNER and list(Invitation.objects.filter(workspace=owner.workspace).open()) == [
        invitation
    ]


def test_what_people_call_themselves_is_escaped_everywhere(owner):
    factories.member(Role.RESEARCHER, of=owner.workspace, name="<script>alert(1)</script>")
    page = as_(owner).get("/settings/members/").content.decode()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_an_address_that_is_too_long_is_refused(owner):
    address = f"ben@{'a' * 60}.{'b' * 60}.{'c' * 60}.{'d' * 60}.{'e' * 20}.org"
    answer = as_(owner).post("/settings/invitations/", {"email": address, "role": Role.ANNOTATOR.value})
    assert (answer.status_code, Invitation.objects.count()) == (422, 0)
