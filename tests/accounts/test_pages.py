"""Access to the pages of people and workspaces, and their query counts."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import Membership, Role
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("url", "seen_from"),
    [
        ("/", Role.ANNOTATOR),
        ("/profile/", Role.ANNOTATOR),
        ("/workspaces/", Role.ANNOTATOR),
        ("/settings/members/", Role.RESEARCHER),
        ("/settings/tokens/", Role.RESEARCHER),
        ("/settings/audit/", Role.OWNER),
    ],
)
@pytest.mark.parametrize("role", Role)
def test_a_page_is_seen_from_a_role_upwards(url, seen_from, role):
    status = as_(factories.member(role)).get(url).status_code
    assert status == (200 if role >= seen_from else 404)


def test_a_stranger_is_sent_to_sign_in_everywhere(client, owner):
    for url in ("/", "/profile/", "/workspaces/", "/settings/members/", "/settings/tokens/", "/settings/audit/"):
        assert client.get(url)["Location"] == f"/sign-in/?next={url}"
    for url in ("/settings/invitations/", f"/settings/members/{owner.pk}/remove/", "/profile/preferences/"):
        assert client.post(url).status_code == 302


def test_every_page_has_the_policy_that_forbids_inline_code(owner):
    for url in ("/", "/sign-in/", "/settings/members/", "/nowhere/"):
        policy = as_(owner).get(url)["Content-Security-Policy"]
        assert "unsafe" not in policy, url


def test_a_list_of_three_workspaces_costs_what_one_of_one_does(owner):
    client = as_(owner)

    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert client.get("/workspaces/").status_code == 200
        return len(captured)

    queries()
    one = queries()
    for _ in range(2):
        Membership.objects.create(user=owner.user, workspace=factories.workspace(), role=Role.ANNOTATOR)
    assert queries() == one
