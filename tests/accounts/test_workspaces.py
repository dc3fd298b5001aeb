"""A person's workspaces: joining, creating, leaving."""

import pytest
from django.test import Client

from apps.accounts import membership_changes
from apps.accounts.models import Membership, Role, User
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


def test_switching_changes_what_the_pages_show(owner):
    there = Membership.objects.create(
        user=owner.user, workspace=factories.workspace(name="There"), role=Role.RESEARCHER
    )
    client = as_(owner)
    assert (
        client.post(f"/workspaces/{there.workspace_id}/enter/", {"next": "/settings/members/"})["Location"]
        == "/settings/members/"
    )
    assert "There" in client.get("/settings/members/").content.decode()


def test_a_workspace_one_is_not_in_cannot_be_entered_or_left(owner):
    elsewhere = factories.workspace()
    client = as_(owner)
    assert client.post(f"/workspaces/{elsewhere.pk}/enter/").status_code == 404
    assert client.post(f"/workspaces/{elsewhere.pk}/leave/").status_code == 404


def test_somebody_in_no_workspace_is_told_what_to_do():
    client = Client()
    client.force_login(factories.user())
    assert "You aren't in a workspace" in client.get("/").content.decode()
    settings = client.get("/settings/members/")
    assert settings.status_code == 404
    assert "Ask an owner for an invitation" in settings.content.decode()


def test_an_operator_in_no_workspace_can_found_one():
    client = Client()
    client.force_login(User.objects.create_superuser(email="ada@example.org", name="Ada", password="pass-phrase-1"))
    assert "Create workspace" in client.get("/").content.decode()
    assert client.post("/workspaces/new/", {"name": ""}).status_code == 422
    assert client.post("/workspaces/new/", {"name": "Mine"}, follow=True).status_code == 200
    assert Membership.objects.get().workspace.name == "Mine"


def test_who_researches_nowhere_founds_no_workspace(owner):
    """In a workspace of their own, they could do everything that they may not do here: train, register servers, and publish to others' servers."""
    removed = factories.member(Role.RESEARCHER, of=owner.workspace)
    membership_changes.remove(membership=removed, by=owner.user)
    labelers = [factories.member(role, of=owner.workspace) for role in (Role.ANNOTATOR, Role.REVIEWER)]
    for nobody in (removed, *labelers):
        assert "Create workspace" not in as_(nobody).get("/workspaces/").content.decode()
        assert as_(nobody).post("/workspaces/new/", {"name": "Mine"}).status_code == 404
    researcher = factories.member(Role.RESEARCHER, of=owner.workspace)
    assert "Create workspace" in as_(researcher).get("/workspaces/").content.decode()
    assert as_(researcher).post("/workspaces/new/", {"name": "Mine"}).status_code == 302


def test_leaving_a_workspace(owner):
    ben = factories.member(Role.ANNOTATOR, of=owner.workspace)
    assert as_(ben).post(f"/workspaces/{owner.workspace_id}/leave/").status_code == 302
    assert not Membership.objects.filter(pk=ben.pk).exists()
