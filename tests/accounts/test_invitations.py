"""From an invitation to a membership."""

import re

import pytest
from django.test import Client

from apps.accounts.models import Membership, Role, User
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


def link_in(answer):
    return re.search(r"http://testserver(/join/[\w-]+/)", answer.content.decode())[1]


def test_the_link_of_an_invitation_is_shown_once(owner):
    client = as_(owner)
    made = client.post("/settings/invitations/", {"email": "ben@example.org", "role": Role.ANNOTATOR.value})
    link = link_in(made)
    assert "no-store" in made["Cache-Control"]
    assert link not in client.get("/settings/members/").content.decode()


def test_a_new_person_joins_by_the_link_and_is_signed_in(owner, client):
    link = link_in(
        as_(owner).post("/settings/invitations/", {"email": "ben@example.org", "role": Role.ANNOTATOR.value})
    )
    assert "ben@example.org" in client.get(link).content.decode()
    weak = client.post(link, {"name": "Ben", "password": "short"})
    assert weak.status_code == 422
    assert "at least 10 characters" in weak.content.decode()
    joined = client.post(link, {"name": "Ben", "password": "four-words-of-mine"}, follow=True)
    assert joined.redirect_chain == [("/", 302)]
    assert Membership.objects.get(user__email="ben@example.org").role == Role.ANNOTATOR
    used = Client().get(link)
    assert used.status_code == 404
    assert "This invitation was already used, was revoked, or has expired." in used.content.decode()


def test_somebody_with_an_account_signs_in_and_joins(owner, client):
    ben = factories.user(email="ben@example.org", name="Ben")
    link = link_in(as_(owner).post("/settings/invitations/", {"email": "ben@example.org", "role": Role.REVIEWER.value}))
    assert f"/sign-in/?next={link}" in client.get(link).content.decode()
    assert (
        client.post(link, {"name": "Thief", "password": "four-words-of-mine"}).status_code == 200
    )  # no second account
    client.force_login(ben)
    assert "Join as Ben" in client.get(link).content.decode()
    assert client.post(link).status_code == 302
    assert Membership.objects.get(user=ben).workspace == owner.workspace
    assert User.objects.filter(email__iexact="ben@example.org").count() == 1


def test_a_made_up_link_leads_nowhere(client):
    assert client.get("/join/made-up/").status_code == 404
    assert client.post("/join/made-up/", {"name": "Eve", "password": "four-words-of-mine"}).status_code == 404
