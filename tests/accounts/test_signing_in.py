import pytest
from django.urls import reverse

from apps.accounts import signing_in
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


def test_after_ten_tries_an_account_has_to_wait_even_with_the_right_password(client):
    factories.user(email="ada@example.org")
    for _ in range(signing_in.PER_ACCOUNT.tries):
        assert sign_in(client, password="guess").status_code == 422
    refused = sign_in(client)
    assert refused.status_code == 429
    assert refused["Retry-After"] == "800"
    assert "Too many tries. Sign-in opens again in 13 min 20 s." in refused.content.decode()
    assert "sessionid" not in client.cookies


def test_the_tries_of_one_account_do_not_lock_another(client):
    factories.user(email="ada@example.org")
    for _ in range(signing_in.PER_ACCOUNT.tries):
        sign_in(client, email="ben@example.org", password="guess")
    assert sign_in(client).status_code == 302


def test_signing_in_forgives_earlier_tries(client):
    factories.user(email="ada@example.org")
    for _ in range(2):
        for _ in range(signing_in.PER_ACCOUNT.tries - 1):
            sign_in(client, password="guess")
        assert sign_in(client).status_code == 302
        client.logout()


def test_an_address_that_tries_many_accounts_has_to_wait(client):
    for number in range(signing_in.PER_ADDRESS.tries):
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
    assert client.get("/sign-out/").status_code == 405  # a link somewhere must not sign people out
    assert client.post("/sign-out/").status_code == 302
    assert client.get("/profile/").status_code == 302


def test_demo_people_are_offered_only_where_the_demo_was_made(client, settings):
    settings.DEMO_SIGN_INS = [{"role": "Annotator", "email": "demo@example.org", "password": "demo-pass"}]
    assert "demo@example.org" not in client.get(URL).content.decode()
    factories.user(email="demo@example.org")
    assert "demo@example.org" in client.get(URL).content.decode()
