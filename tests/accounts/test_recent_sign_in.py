"""Actions with lasting security effects ask for the password again, then continue with the submitted form."""

import re

import pytest
from django.test import Client
from django.urls import get_resolver, reverse

from apps.accounts.models import AuditEntry, Invitation, Membership, Role
from apps.accounts.recent_sign_in import GIVEN_AT
from tests import factories
from tests.accounts.clients import as_
from tests.addresses import routes

pytestmark = pytest.mark.django_db

ASKING = {
    *(f"accounts:{name}" for name in ("change_role", "remove", "invite", "revoke_invitation")),
    *("accounts:issue_token", "accounts:revoke_token"),
    *("policies:new", "policies:publish", "policies:roll_back_publication"),
    *("v1:publications", "v1:publication_roll_back", "v1:policies"),
    *("v1:member_role", "v1:member_remove", "v1:invitations", "v1:invitation_revoke"),
    *("webhooks:new", "webhooks:turn", "webhooks:rotate"),
    *("v1:webhooks", "v1:webhook_change", "v1:webhook_rotate"),
    *("gateway:new_split", "gateway:change_split", "v1:traffic_splits", "v1:traffic_split"),
    *("gateway:new_feedback_key", "v1:feedback_keys"),
    *("redaction:remove", "v1:redaction_rule_remove"),
    *(f"gateway:{name}" for name in ("set_limits", "set_price", "remove_price")),
    *("v1:prices", "v1:price_remove", "v1:usage_limits"),
    *("transfer:new_export", "transfer:new_import", "v1:exports", "v1:workspace_imports"),
}
"""Changes to roles, credentials, endpoints, webhooks, redaction, and spending limits, and exports of data."""

NOT_ASKING = {
    "accounts:change_password",  # has a field for the current password, with the same attempt limit
    *("accounts:sign_in", "accounts:sign_out", "accounts:join", "accounts:workspaces", "accounts:found"),
    *("accounts:switch", "accounts:leave", "accounts:profile", "accounts:change_name", "accounts:preferences"),
    *("accounts:settings", "accounts:members", "accounts:tokens", "accounts:audit"),
    *("policies:list", "policies:policy", "policies:publications", "policies:download"),
    *("policies:archived", "policies:archive", "policies:restore"),  # restored as easily as archived
    *("v1:policy_archive", "v1:policy_restore"),
    *("v1:members", "v1:policy", "v1:policy_card", "v1:policy_lineage", "v1:publication"),
    *(
        f"webhooks:{name}" for name in ("list", "destination", "change", "test", "remove", "resend")
    ),  # sent to addresses that are already known
    *(f"v1:webhook{name}" for name in ("", "_test", "_remove", "_deliveries", "_resend")),
    *("gateway:splits", "gateway:split", "gateway:remove_split", "v1:traffic_split_remove"),
    *("gateway:switch_split", "v1:traffic_split_switch"),  # turning off is urgent; turning on restores earlier choices
    "gateway:usage",
    *("gateway:feedback_keys", "gateway:revoke_feedback_key"),
    *("v1:feedback", "v1:feedback_key_revoke"),
    *("redaction:list", "redaction:new", "redaction:test", "v1:redaction_rules", "v1:redaction_test"),
    *(
        "transfer:transfer",
        "transfer:archive",
        "transfer:delete_archive",
    ),  # access to what was exported after entering the password
    *("v1:export", "v1:export_archive", "v1:export_delete", "v1:workspace_import"),
}


@pytest.fixture
def ben(owner: Membership) -> Membership:
    return factories.member(Role.ANNOTATOR, of=owner.workspace, name="Ben")


def hours_later(client: Client) -> Client:
    session = client.session
    session[GIVEN_AT] -= 4 * 3600
    session.save()
    return client


def change(client: Client, ben: Membership, **fields: str):
    return client.post(reverse("accounts:change_role", args=[ben.pk]), {"role": str(int(Role.OWNER)), **fields})


def role_of(member: Membership) -> Role:
    member.refresh_from_db()
    return Role(member.role)


def test_a_role_changes_without_a_question_shortly_after_signing_in(owner, ben):
    assert change(as_(owner), ben).status_code == 302
    assert role_of(ben) == Role.OWNER


def test_later_the_password_is_asked_for_and_what_was_sent_is_kept(owner, ben):
    client = hours_later(as_(owner))
    page = change(client, ben)
    assert page.status_code == 422
    assert "To change a role, enter your password." in page.text
    assert '<input type="hidden" name="role" value="4">' in page.text
    assert role_of(ben) == Role.ANNOTATOR
    done = change(client, ben, confirm_password="pass-phrase-1")
    assert (done.status_code, role_of(ben)) == (302, Role.OWNER)
    assert client.post(reverse("accounts:remove", args=[ben.pk])).status_code == 302  # not asked again


def test_htmx_gets_the_question_in_a_status_that_it_shows(owner, ben):
    client = hours_later(as_(owner))
    path = reverse("accounts:change_role", args=[ben.pk])
    page = client.post(path, {"role": "4"}, headers={"HX-Request": "true"})
    assert page.status_code == 422
    assert f'action="{path}"' in page.text
    assert 'id="main"' in page.text


def test_a_wrong_password_changes_nothing_and_is_written_down(owner, ben):
    client = hours_later(as_(owner))
    page = change(client, ben, confirm_password="guess")
    assert page.status_code == 422
    assert "This isn&#x27;t your password." in page.text
    assert "guess" not in page.text
    assert role_of(ben) == Role.ANNOTATOR
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.subject) == (owner.user, "wrong password given to", "change a role")


def test_guessing_ends_after_ten_tries_even_with_the_right_password(owner, ben):
    client = hours_later(as_(owner))
    for _ in range(10):
        change(client, ben, confirm_password="guess")
    page = change(client, ben, confirm_password="pass-phrase-1")
    assert page.status_code == 429
    assert "Too many tries." in page.text
    assert role_of(ben) == Role.ANNOTATOR


def test_guessing_the_current_password_of_the_profile_ends_with_it(owner):
    client = as_(owner)
    fields = {"current": "guess", "password": "four-words-of-mine"}
    statuses = [client.post(reverse("accounts:change_password"), fields).status_code for _ in range(11)]
    assert statuses == [422] * 10 + [429]


def test_what_was_sent_is_escaped_on_the_page(owner):
    client = hours_later(as_(owner))
    payload = '"><i data-injected hx-post=/x>'
    page = client.post(reverse("accounts:invite"), {"email": payload, payload: "x", "role": "1"})
    assert page.status_code == 422
    assert "<i data-injected" not in page.text
    assert not Invitation.objects.exists()


def test_a_role_below_finds_nothing_rather_than_a_question(ben):
    assert hours_later(as_(ben)).post(reverse("accounts:invite"), {"email": "x@example.org"}).status_code == 404


def test_every_address_of_people_and_policies_is_decided_on():
    """A new URL must be added to one of the two lists."""
    names = {name for name, _ in routes(get_resolver())}
    named = {
        name
        for name in names
        if re.match(
            r"accounts:|policies:|webhooks:|v1:polic|v1:member|v1:invitation|v1:publication|v1:webhook|gateway:.*split|v1:traffic_split|\w+:\w*feedback|redaction:|v1:redaction|gateway:(?:usage|set_limits|.*_price)|v1:price|v1:usage|transfer:|v1:export|v1:workspace_import",
            name,
        )
    }
    assert named == ASKING | NOT_ASKING


def test_every_asking_page_asks_before_it_looks_at_what_it_is_about(owner):
    asking = {name for name, callback in _callbacks() if hasattr(callback, "needs_recent_sign_in")}
    assert asking == {name for name in ASKING if not name.startswith("v1:")}
    client = hours_later(as_(owner))
    for name in ("accounts:invite", "accounts:issue_token", "policies:new"):
        assert "enter your password" in client.post(reverse(name)).text


def test_over_rest_a_session_is_sent_to_the_page_and_a_token_is_not_asked(owner):
    policy = factories.policy(of=owner.workspace)
    path = f"/api/v1/policies/{policy.pk}/publications"
    client = hours_later(as_(owner))
    refused = client.post(path, {}, content_type="application/json")
    assert refused.status_code == 403
    assert refused.json()["detail"].startswith("A browser session needs a recent password confirmation for this")
    assert client.get(path).status_code == 200
    token = {"authorization": f"Bearer {factories.token(owner)}"}
    assert Client().post(path, {}, content_type="application/json", headers=token).status_code == 400


def _callbacks(resolver=None, space=""):
    for pattern in (resolver or get_resolver()).url_patterns:
        if hasattr(pattern, "url_patterns"):
            yield from _callbacks(pattern, f"{pattern.namespace}:" if pattern.namespace else space)
        else:
            yield f"{space}{pattern.name}", pattern.callback
