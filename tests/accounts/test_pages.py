"""Who gets which page: members of each role, and an outsider, who gets 404 everywhere."""

import html
import json
import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client

from apps.accounts import auditing, inviting, issuing, staffing
from apps.accounts.models import ApiToken, Invitation, Membership, Role, User
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _limits_start_afresh(monkeypatch):
    cache.clear()
    monkeypatch.setattr("apps.common.limits.time", lambda: 1_000_000.0)


@pytest.fixture
def owner():
    return factories.member(Role.OWNER)


def as_(member):
    client = Client()
    client.force_login(member.user)
    return client


# Roles -------------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("preferences", [{"theme": "dark"}, {"keys": {"Go to/Home": "g z"}, "theme": "light"}])
def test_every_page_opens_whatever_somebody_prefers(preferences):
    member = factories.member(Role.ANNOTATOR)
    client = as_(member)
    saved = {**preferences, **({"keys": json.dumps(preferences["keys"])} if "keys" in preferences else {})}
    assert client.post("/profile/preferences/", saved).status_code < 400
    page = client.get("/")
    assert page.status_code == 200
    assert f'data-theme="{preferences["theme"]}"' in page.content.decode()
    keys = html.unescape(re.search('data-keys="([^"]*)"', page.content.decode())[1])
    assert json.loads(keys) == preferences.get("keys", {})


def test_the_audit_shows_details_of_any_name(owner):
    auditing.record(workspace=owner.workspace, actor=owner.user, action="made queue", subject="q", items=96, keys=1)
    page = as_(owner).get("/settings/audit/")
    assert page.status_code == 200
    assert "items: 96" in page.content.decode()


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER, Role.RESEARCHER])
def test_only_owners_change_members_and_invitations(owner, role):
    client = as_(factories.member(role, of=owner.workspace))
    invitation = inviting.invite(
        workspace=owner.workspace, email="ben@example.org", role=Role.ANNOTATOR, by=owner.user
    ).invitation
    for url, data in changes_of(owner, invitation):
        assert client.post(url, data).status_code == 404, url
    assert unchanged(owner, invitation)


def test_an_owner_of_another_workspace_changes_nothing_here(owner):
    invitation = inviting.invite(
        workspace=owner.workspace, email="ben@example.org", role=Role.ANNOTATOR, by=owner.user
    ).invitation
    outsider = as_(factories.member(Role.OWNER))
    for url, data in changes_of(owner, invitation):
        if url != "/settings/invitations/":  # that one invites into the outsider's own workspace
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


def test_a_stranger_is_sent_to_sign_in_everywhere(client, owner):
    for url in ("/", "/profile/", "/workspaces/", "/settings/members/", "/settings/tokens/", "/settings/audit/"):
        assert client.get(url)["Location"] == f"/sign-in/?next={url}"
    for url in ("/settings/invitations/", f"/settings/members/{owner.pk}/remove/", "/profile/preferences/"):
        assert client.post(url).status_code == 302


def test_changes_need_a_token_of_the_page(owner):
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner.user)
    refused = client.post(f"/settings/members/{owner.pk}/remove/")
    assert refused.status_code == 403
    assert "This page was out of date" in refused.content.decode()


# Members and invitations ---------------------------------------------------------------------------------------------------


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
    assert "Make somebody else owner first." in answer


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
    assert "This invitation was used, revoked or has expired." in used.content.decode()


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


# Tokens --------------------------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_opens_the_api(owner):
    client = as_(owner)
    made = client.post("/settings/tokens/new/", {"name": "laptop", "lifetime": "30"})
    secret = re.search(r"rt_[\w-]{43}", made.content.decode())[0]
    assert "no-store" in made["Cache-Control"]
    listed = client.get("/settings/tokens/").content.decode()
    assert secret not in listed
    assert secret[:9] in listed
    assert ApiToken.objects.get().expires_at is not None


def test_a_token_without_an_end_is_a_choice(owner):
    as_(owner).post("/settings/tokens/new/", {"name": "laptop", "lifetime": "never"})
    assert ApiToken.objects.get().expires_at is None


def test_only_ones_own_tokens_can_be_revoked_except_by_an_owner(owner):
    researcher = factories.member(Role.RESEARCHER, of=owner.workspace)
    other = factories.member(Role.RESEARCHER, of=owner.workspace)
    token = issuing.issue_token(membership=researcher, name="laptop").token
    url = f"/settings/tokens/{token.pk}/revoke/"
    assert as_(other).post(url).status_code == 404
    assert as_(factories.member(Role.OWNER)).post(url).status_code == 404
    assert ApiToken.objects.usable().exists()
    assert as_(owner).post(url).status_code == 302
    assert not ApiToken.objects.usable().exists()


def test_twenty_tokens_an_hour_are_enough(owner):
    client = as_(owner)
    for number in range(20):
        assert client.post("/settings/tokens/new/", {"name": f"t{number}", "lifetime": "30"}).status_code == 200
    refused = client.post("/settings/tokens/new/", {"name": "one more", "lifetime": "30"})
    assert refused.status_code == 429
    assert refused["Retry-After"] == "800"  # 2,800 s into an hour
    assert ApiToken.objects.count() == 20


# Workspaces ----------------------------------------------------------------------------------------------------------------


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


def test_a_missing_page_offers_the_other_workspaces_and_comes_back_to_it(owner):
    there = Membership.objects.create(user=owner.user, workspace=factories.workspace(name="There"), role=Role.OWNER)
    ben = factories.member(of=there.workspace)
    client = as_(owner)
    url = f"/settings/members/{ben.pk}/role/"
    missing = client.post(url, {"role": "2"})
    assert missing.status_code == 404
    page = missing.content.decode()
    assert "Look in another workspace" in page
    assert f'action="/workspaces/{there.workspace_id}/enter/"' in page
    assert f'value="{url}"' in page
    assert owner.workspace.name not in page


def test_somebody_in_no_workspace_is_told_what_to_do():
    client = Client()
    client.force_login(factories.user())
    assert "You are in no workspace" in client.get("/").content.decode()
    settings = client.get("/settings/members/")
    assert settings.status_code == 404
    assert "Ask an owner for an invitation" in settings.content.decode()


def test_an_operator_in_no_workspace_can_found_one():
    client = Client()
    client.force_login(User.objects.create_superuser(email="ada@example.org", name="Ada", password="pass-phrase-1"))
    assert "Make a workspace" in client.get("/").content.decode()
    assert client.post("/workspaces/new/", {"name": ""}).status_code == 422
    assert client.post("/workspaces/new/", {"name": "Mine"}, follow=True).status_code == 200
    assert Membership.objects.get().workspace.name == "Mine"


def test_who_researches_nowhere_founds_no_workspace(owner):
    """In one of their own they could do all that they may not do here: train, register servers, publish to those of others."""
    removed = factories.member(Role.RESEARCHER, of=owner.workspace)
    staffing.remove(membership=removed, by=owner.user)
    labellers = [factories.member(role, of=owner.workspace) for role in (Role.ANNOTATOR, Role.REVIEWER)]
    for nobody in (removed, *labellers):
        assert "Make a workspace" not in as_(nobody).get("/workspaces/").content.decode()
        assert as_(nobody).post("/workspaces/new/", {"name": "Mine"}).status_code == 404
    researcher = factories.member(Role.RESEARCHER, of=owner.workspace)
    assert "Make a workspace" in as_(researcher).get("/workspaces/").content.decode()
    assert as_(researcher).post("/workspaces/new/", {"name": "Mine"}).status_code == 302


def test_leaving_a_workspace(owner):
    ben = factories.member(Role.ANNOTATOR, of=owner.workspace)
    assert as_(ben).post(f"/workspaces/{owner.workspace_id}/leave/").status_code == 302
    assert not Membership.objects.filter(pk=ben.pk).exists()


# Oneself -------------------------------------------------------------------------------------------------------------------


def test_a_changed_password_ends_other_sessions_but_not_this_one(owner):
    here, elsewhere = as_(owner), as_(owner)
    wrong = here.post("/profile/password/", {"current": "guess", "password": "four-words-of-mine"})
    assert wrong.status_code == 422
    assert "This is not your current password." in wrong.content.decode()
    done = here.post("/profile/password/", {"current": "pass-phrase-1", "password": "four-words-of-mine"})
    assert done.status_code == 302
    assert here.get("/profile/").status_code == 200
    assert elsewhere.get("/profile/").status_code == 302


def test_preferences_keep_what_was_not_sent(owner):
    client = as_(owner)
    assert client.post("/profile/preferences/", {"theme": "dark"}).status_code == 204
    assert client.post("/profile/preferences/", {"keys": '{"List/Next row": "n"}'}).status_code == 204
    owner.user.refresh_from_db()
    assert owner.user.preferences == {"theme": "dark", "keys": {"List/Next row": "n"}}
    page = client.get("/profile/").content.decode()
    assert 'data-theme="dark"' in page
    assert 'data-keys="{&quot;List/Next row&quot;: &quot;n&quot;}"' in page


@pytest.mark.parametrize(
    "data",
    [
        {"theme": "pink"},
        {"keys": "[]"},
        {"keys": "{"},
        {"keys": '{"a": 1}'},
        {"keys": '{"a": ""}'},
        {"keys": "[" * 100_000},
    ],
)
def test_preferences_that_no_page_sends_are_refused(owner, data):
    assert as_(owner).post("/profile/preferences/", data).status_code == 422
    owner.user.refresh_from_db()
    assert owner.user.preferences == {}


def test_what_people_call_themselves_is_escaped_everywhere(owner):
    factories.member(Role.RESEARCHER, of=owner.workspace, name="<script>alert(1)</script>")
    page = as_(owner).get("/settings/members/").content.decode()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


# Errors and costs ------------------------------------------------------------------------------------------------------------


def test_an_unknown_address_of_the_api_answers_in_json(owner):
    answer = as_(owner).get("/api/v1/nothing")
    assert answer.status_code == 404
    assert answer.json() == {"detail": "There is no such address in the API. See /api/docs/."}


def test_every_page_has_the_policy_that_forbids_inline_code(owner):
    for url in ("/", "/sign-in/", "/settings/members/", "/nowhere/"):
        policy = as_(owner).get(url)["Content-Security-Policy"]
        assert "unsafe" not in policy, url


@pytest.mark.parametrize("url", ["/settings/members/", "/settings/tokens/", "/settings/audit/", "/workspaces/"])
def test_a_list_of_three_costs_what_a_list_of_one_does(url, owner, django_assert_num_queries):
    client = as_(owner)

    def queries():
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as captured:
            assert client.get(url).status_code == 200
        return len(captured)

    fill(owner)
    client.get(url)
    one = queries()
    fill(owner)
    fill(owner)
    assert queries() == one


def fill(owner):
    """One more row in each list."""
    ben = factories.member(Role.RESEARCHER, of=owner.workspace)
    issuing.issue_token(membership=ben, name="laptop", lifetime=timedelta(days=1))
    inviting.invite(workspace=owner.workspace, email=f"{ben.pk}@example.com", role=Role.ANNOTATOR, by=ben.user)
    Membership.objects.create(user=owner.user, workspace=factories.workspace(), role=Role.ANNOTATOR)


def test_the_audit_pages_by_cursor(owner):
    for number in range(60):
        issuing.issue_token(membership=owner, name=f"token-{number:02}")
    client = as_(owner)
    first = client.get("/settings/audit/").content.decode()
    assert "token-59" in first
    assert "token-09" not in first
    older = re.search(r'href="(\?cursor=[^"]+)" rel="next"', first)[1].replace("&amp;", "&")
    second = client.get("/settings/audit/" + older).content.decode()
    assert "token-09" in second
    assert "token-10" not in second
    assert 'rel="prev"' in second
