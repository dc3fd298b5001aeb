"""The profile page: name, password, theme, keys."""

import html
import json
import re

import pytest

from apps.accounts.models import Role
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


def test_a_changed_password_ends_other_sessions_but_not_this_one(owner):
    here, elsewhere = as_(owner), as_(owner)
    wrong = here.post("/profile/password/", {"current": "guess", "password": "four-words-of-mine"})
    assert wrong.status_code == 422
    assert "This isn&#x27;t your current password." in wrong.content.decode()
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
