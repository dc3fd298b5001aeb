import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts import login
from apps.accounts.models import User
from apps.common import fair_share
from tests import factories

pytestmark = pytest.mark.django_db
URL = "/sign-in/"


def sign_in(client, email="ada@example.org", password="pass-phrase-1", **more):
    return client.post(URL, {"email": email, "password": password, **more})


def test_a_stranger_is_sent_to_sign_in_and_back(client):
    factories.member(email="ada@example.org")
    refused = client.get("/settings/members/")
    assert refused.status_code == 302
    assert refused["Location"] == "/sign-in/?next=/settings/members/"
    back = sign_in(client, next="/settings/members/")
    assert back["Location"] == "/settings/members/"
    assert client.get("/settings/members/").status_code == 200


def test_the_case_of_the_address_does_not_matter(client):
    factories.user(email="ada@example.org")
    assert sign_in(client, email="ADA@example.org").status_code == 302


@pytest.mark.parametrize("other", ["adm\u0131n@example.org", "ADM\u0130N@example.org"])
def test_an_address_that_looks_alike_is_another_one(client, other):
    """PostgreSQL's UPPER takes a dotless i for an i."""
    factories.user(email="admin@example.org")
    assert sign_in(client, email=other).status_code == 422
    factories.user(email="adm\u0131n@example.org", password="another-phrase")
    assert sign_in(client, email="admin@example.org").status_code == 302
    assert User.objects.get(pk=client.session["_auth_user_id"]).email == "admin@example.org"


def test_a_wrong_password_and_an_unknown_address_are_refused_in_the_same_words(client):
    factories.user(email="ada@example.org")
    wrong = sign_in(client, password="something-else")
    unknown = sign_in(client, email="nobody@example.org")
    assert wrong.status_code == unknown.status_code == 422
    for answer in (wrong, unknown):
        assert "No account has this e-mail address and password." in answer.content.decode()


def test_a_deactivated_account_cannot_sign_in(client):
    factories.user(email="ada@example.org", is_active=False)
    assert sign_in(client).status_code == 422


@pytest.mark.parametrize(
    "onward",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "nowhere",
        "accounts:profile",
    ],
)
def test_signing_in_leads_to_paths_of_this_site_only(client, onward):
    factories.user(email="ada@example.org")
    assert sign_in(client, next=onward)["Location"] == reverse("home")


def guess(client, times, *, email="ada@example.org", address="192.0.2.1"):
    for _ in range(times):
        answer = client.post(URL, {"email": email, "password": "guess"}, REMOTE_ADDR=address)
    return answer


def test_after_ten_tries_from_an_address_an_account_has_to_wait_even_with_the_right_password(client):
    factories.user(email="ada@example.org")
    assert guess(client, 10, address="127.0.0.1").status_code == 422
    refused = sign_in(client)
    assert refused.status_code == 429
    assert refused["Retry-After"] == "800"
    assert "Too many tries. Try again in 13 min 20 s." in refused.content.decode()
    assert "sessionid" not in client.cookies


def test_the_tries_of_one_account_do_not_lock_another(client):
    factories.user(email="ada@example.org")
    guess(client, 10, email="ben@example.org", address="127.0.0.1")
    assert sign_in(client).status_code == 302


def test_signing_in_forgives_earlier_tries(client):
    factories.user(email="ada@example.org")
    for _ in range(2):
        guess(client, 9, address="127.0.0.1")
        assert sign_in(client).status_code == 302
        client.logout()


def test_a_stranger_elsewhere_locks_nobody_out(client):
    factories.user(email="ada@example.org")
    assert guess(client, 60).status_code == 429
    assert sign_in(client).status_code == 302


def known_browser(client):
    """A client that has signed in and out."""
    assert sign_in(client).status_code == 302
    client.post("/sign-out/")
    return client


def test_guessing_from_many_addresses_has_to_wait_but_not_a_browser_that_knows_the_account(client):
    factories.user(email="ada@example.org")
    known_browser(client)
    for number in range(6):
        last = guess(Client(), 10, address=f"192.0.2.{number}")
    assert last.status_code == 429  # at 50 tries of the account
    assert Client().post(URL, {"email": "ada@example.org", "password": "pass-phrase-1"}).status_code == 429
    assert sign_in(client).status_code == 302


def test_a_known_browser_is_let_in_though_its_address_has_to_wait(client):
    factories.user(email="ada@example.org")
    known_browser(client)
    stranger = Client()
    for number in range(51):
        guess(stranger, 1, email=f"person{number}@example.org", address="127.0.0.1")
    assert stranger.post(URL, {"email": "x@example.org", "password": "x"}).status_code == 429
    assert sign_in(client).status_code == 302


def test_a_known_browser_has_ten_tries_of_its_own(client):
    factories.user(email="ada@example.org")
    known_browser(client)
    for number in range(10):  # from any IP address
        assert guess(client, 1, address=f"192.0.2.{number}").status_code == 422
    assert sign_in(client).status_code == 429


def test_a_browser_is_known_for_no_other_account_and_cannot_say_so_itself(client):
    factories.user(email="ada@example.org")
    factories.user(email="eve@example.org")
    sign_in(client, email="eve@example.org")
    client.post("/sign-out/")
    guess(client, 10, address="127.0.0.1")
    assert sign_in(client).status_code == 429
    client.cookies["known"] = "made:up:signature"
    assert sign_in(client).status_code == 429


def test_a_browser_that_knows_an_account_does_not_lend_its_tries_to_others(client):
    factories.user(email="ada@example.org")
    cookie = known_browser(client).cookies["known"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/sign-in/")
    assert "ada" not in cookie.value
    guess(client, 9)
    assert known_browser(client).cookies["known"]  # the counter is reset; the browser is still recognized
    assert guess(client, 10).status_code == 422
    assert guess(client, 1).status_code == 429


def test_an_address_that_tries_many_accounts_has_to_wait(client):
    for number in range(login.PER_ADDRESS.tries):
        assert sign_in(client, email=f"person{number}@example.org").status_code == 422
    assert sign_in(client, email="one-more@example.org").status_code == 429
    elsewhere = client.post(URL, {"email": "a@example.org", "password": "x"}, REMOTE_ADDR="192.0.2.7")
    assert elsewhere.status_code == 422


def test_a_session_that_ended_under_an_open_page_sends_the_whole_page_to_sign_in(client):
    followed = client.get(
        "/sign-in/?next=/x/progress/", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/x/"}
    )
    assert followed["HX-Redirect"] == "/sign-in/?next=/x/"


def test_signing_out_ends_the_session(client):
    client.force_login(factories.member().user)
    assert client.get("/profile/").status_code == 200
    assert client.get("/sign-out/").status_code == 405  # a link on another site must not sign people out
    assert client.post("/sign-out/").status_code == 302
    assert client.get("/profile/").status_code == 302


def test_demo_people_are_offered_only_where_the_demo_was_made(client, settings):
    settings.DEMO_SIGN_INS = [{"role": "Annotator", "email": "demo@example.org", "password": "demo-pass"}]
    assert "demo@example.org" not in client.get(URL).content.decode()
    factories.user(email="demo@example.org")
    assert "demo@example.org" in client.get(URL).content.decode()


def test_floods_of_sign_ins_leave_connections_to_others_and_known_browsers_first(client, monkeypatch):
    """Each is from another address, so no limit of tries applies."""
    factories.user(email="ada@example.org")
    sign_in(client)
    client.post("/sign-out/")
    monkeypatch.setattr(fair_share, "WAIT_SECONDS", 0.01)
    at_once = login.OF_STRANGERS.at_once
    statuses = []

    def check_while_others_try(request, **credentials):
        """As long as each check is in progress, another stranger tries."""
        address = f"192.0.2.{len(statuses) + 1}"
        statuses.append(0)
        if len(statuses) > at_once + 1:
            return None
        mine = len(statuses) - 1
        answer = Client(REMOTE_ADDR=address).post(URL, {"email": f"{mine}@example.org", "password": "x"})
        statuses[mine] = answer.status_code
        if len(statuses) == at_once:
            monkeypatch.setattr(login, "authenticate", authenticate)
            assert sign_in(client).status_code == 302
            monkeypatch.setattr(login, "authenticate", check_while_others_try)
        return None

    authenticate = login.authenticate
    monkeypatch.setattr(login, "authenticate", check_while_others_try)
    assert sign_in(Client(), email="eve@example.org").status_code == 422
    assert statuses == [422] * (at_once - 1) + [429]
