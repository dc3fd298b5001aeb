"""Feedback is sent with a key that allows nothing else, from any page, and its amount is limited."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver, reverse

from apps.accounts.models import AuditEntry, Membership, Role
from apps.gateway import feedback
from apps.gateway.api import feedback as api
from apps.gateway.models import Feedback, FeedbackKey, Session
from tests import factories
from tests.accounts.clients import as_
from tests.addresses import routes

pytestmark = pytest.mark.django_db
PATH = "/api/v1/feedback"


@pytest.fixture
def member() -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def session(member: Membership) -> Session:
    return factories.session(of=member.workspace, messages=[{"role": "assistant", "content": "On the shelf."}])


@pytest.fixture
def secret(member: Membership) -> str:
    return feedback.create_key(member=member, name="help center").secret


def say(secret: str, **body: Any) -> Any:
    headers = {"authorization": f"Bearer {secret}", "origin": "https://shop.example"}
    return Client().post(PATH, json.dumps(body, default=str), content_type="application/json", headers=headers)


def test_a_page_of_another_site_may_ask_and_send(secret: str, session: Session) -> None:
    preflight = Client().options(
        PATH, headers={"origin": "https://shop.example", "access-control-request-method": "POST"}
    )
    assert preflight.status_code == 204
    assert preflight["Access-Control-Allow-Origin"] == "*"
    assert preflight["Access-Control-Allow-Headers"] == "Authorization, Content-Type"
    response = say(secret, session=session.pk, thumb="down", comment=" Wrong room. ", edited_answer=" In the hall. ")
    assert response.status_code == 201, response.json()
    assert response["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in response
    [kept] = Feedback.objects.all()
    assert response.json() == {"id": str(kept.pk)}
    assert (kept.thumb, kept.comment, kept.edited, kept.session) == (-1, "Wrong room.", " In the hall. ", session)


def test_refusals_can_be_read_by_the_page_too(secret: str) -> None:
    for answer in (say("rf_none", session="x"), say(secret)):
        assert answer.status_code in (400, 401)
        assert answer["Access-Control-Allow-Origin"] == "*"


def test_no_other_address_answers_pages_of_other_sites(member: Membership) -> None:
    token = factories.token(member)
    headers = {"authorization": f"Bearer {token}", "origin": "https://shop.example"}
    for path in ("/api/v1/sessions", "/api/v1/feedback-keys", "/healthz"):
        answers = [Client().get(path, headers=headers), Client().options(path, headers=headers)]
        assert not any("Access-Control-Allow-Origin" in answer for answer in answers)


def test_a_feedback_key_opens_nothing_else(secret: str) -> None:
    headers = {"authorization": f"Bearer {secret}"}
    opened = set()
    for number, (name, path) in enumerate(routes(get_resolver())):
        if name.startswith("v1:") and "{" not in path and name != "v1:feedback":
            visitor = Client(
                REMOTE_ADDR=f"10.0.{number // 256}.{number % 256}"
            )  # a single address would exceed the rate limit
            answers = [visitor.get(path, headers=headers), visitor.post(path, headers=headers)]
            opened |= {name for answer in answers if answer.status_code not in (401, 405)}
    assert opened == set()
    assert Client().get(PATH, headers=headers).status_code == 405


def test_a_key_speaks_of_sessions_of_its_own_workspace_only(secret: str) -> None:
    elsewhere = factories.session(messages=[{"role": "assistant", "content": "Hello."}])
    assert say(secret, session=elsewhere.pk, thumb="up").status_code == 404
    assert not Feedback.objects.exists()


def test_a_browser_that_is_signed_in_lends_nobody_its_rights(member: Membership, session: Session) -> None:
    answer = as_(member).post(PATH, {"session": str(session.pk), "thumb": "up"}, content_type="application/json")
    assert answer.status_code == 401
    assert not Feedback.objects.exists()


def test_a_researchers_token_works_from_a_server_and_a_reviewers_does_not(member: Membership, session: Session) -> None:
    assert say(factories.token(member), session=session.pk, thumb="up").status_code == 201
    reviewer = factories.member(Role.REVIEWER, of=member.workspace)
    assert say(factories.token(reviewer), session=session.pk, thumb="up").status_code == 401


@pytest.mark.parametrize("change", ["revoked", "removed", "demoted"])
def test_a_key_ends_when_it_is_revoked_and_with_the_rights_of_whoever_made_it(
    secret: str, member: Membership, session: Session, change: str
) -> None:
    if change == "revoked":
        feedback.revoke_key(key=FeedbackKey.objects.get(), by=member.user)
        assert AuditEntry.objects.filter(action="revoked feedback key").exists()
    elif change == "removed":
        member.delete()
    else:
        Membership.objects.update(role=Role.REVIEWER)
    assert say(secret, session=session.pk, thumb="up").status_code == 401


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "thumb"),
        ({"thumb": "sideways"}, "thumb"),
        ({"comment": "x" * 2_001}, "comment"),
        ({"edited_answer": "x" * 20_001}, "edited_answer"),
        ({"comment": "\0"}, "comment"),
        ({"thumb": "up", "call": "00000000-0000-0000-0000-000000000000"}, "call"),
        ({"thumb": "up", "reward": 1}, "reward"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_field(secret: str, session: Session, body: Any, field: str) -> None:
    answer = say(secret, session=session.pk, **body)
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == [field]
    assert not Feedback.objects.exists()


def test_a_large_request_is_not_read(secret: str, session: Session) -> None:
    answer = say(secret, session=session.pk, edited_answer="x" * 300_000)
    assert answer.status_code == 400
    assert answer.json()["detail"] == "The request is larger than 256 kB."


def test_a_session_keeps_so_much_and_no_more(secret: str, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback, "MAX_PER_SESSION", 2)
    statuses = [say(secret, session=session.pk, thumb="up").status_code for _ in range(3)]
    assert statuses == [201, 201, 400]


@pytest.mark.parametrize("limit", ["PER_KEY", "PER_SESSION"])
def test_a_key_and_a_session_have_a_rate(
    secret: str, session: Session, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(api, limit, api.Limit("tests", tries=2, seconds=10_000_000))
    statuses = [say(secret, session=session.pk, thumb="up").status_code for _ in range(3)]
    assert statuses == [201, 201, 429]


def test_a_workspace_has_so_many_keys_and_no_more(
    member: Membership, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key has its own rate limit, so an unlimited number of keys would amount to none."""
    monkeypatch.setattr(feedback, "MAX_KEYS", 1)
    headers = {"authorization": f"Bearer {factories.token(member)}"}
    over_rest = Client().post(
        reverse("v1:feedback_keys"), {"name": "app"}, content_type="application/json", headers=headers
    )
    on_page = as_(member).post(reverse("gateway:new_feedback_key"), {"name": "app"})
    assert (over_rest.status_code, on_page.status_code) == (400, 422)
    assert all("1 feedback keys, which is the maximum" in answer.content.decode() for answer in (over_rest, on_page))
    feedback.revoke_key(key=FeedbackKey.objects.get(), by=member.user)
    assert as_(member).post(reverse("gateway:new_feedback_key"), {"name": "app"}).status_code == 200


def test_the_key_is_shown_once_and_stored_hashed(member: Membership) -> None:
    client = as_(member)
    page = client.post(reverse("gateway:new_feedback_key"), {"name": "help center"}).text
    [key] = FeedbackKey.objects.all()
    assert f"{key.prefix}" in page
    secret = page.partition('id="feedback-key">')[2].partition("<")[0]
    assert feedback.digest_of(secret) == key.digest
    assert secret not in client.get(reverse("gateway:feedback_keys")).text
    client.post(reverse("gateway:revoke_feedback_key", args=[key.pk]))
    assert "Revoked" in client.get(reverse("gateway:feedback_keys")).text


def test_an_outsider_revokes_nothing(secret: str) -> None:
    key = FeedbackKey.objects.get()
    outsider = as_(factories.member(Role.OWNER))
    assert outsider.post(reverse("gateway:revoke_feedback_key", args=[key.pk])).status_code == 404
    key.refresh_from_db()
    assert key.revoked_at is None


def test_keys_over_rest(member: Membership) -> None:
    client, headers = Client(), {"authorization": f"Bearer {factories.token(member)}"}
    made = client.post(
        reverse("v1:feedback_keys"), {"name": "app"}, content_type="application/json", headers=headers
    ).json()
    assert made["key"].startswith(made["prefix"])
    listed = client.get(reverse("v1:feedback_keys"), headers=headers).json()["results"]
    assert listed == [{name: value for name, value in made.items() if name != "key"}]
    revoked = client.post(reverse("v1:feedback_key_revoke", args=[made["id"]]), headers=headers).json()
    assert revoked["revoked_at"] is not None
