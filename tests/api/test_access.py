"""Access is decided before a request is throttled, parsed, or validated."""

from itertools import chain, cycle
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern

from apps.accounts.authentication import MemberRateThrottle
from apps.accounts.models import Role
from apps.common.api import MemberView
from apps.common.ids import new_id
from apps.gateway.api.feedback import FeedbackView
from apps.urls import APIS
from tests import factories

pytestmark = pytest.mark.django_db

BODIES: list[tuple[str, bytes]] = [
    ("application/json", b"{}"),
    ("application/json", b'{"name": "\\ud800"'),
    ("application/json; charset=utf-16", "{}".encode("utf-16")),
    ("application/x-www-form-urlencoded; charset=utf-16", b"a=b"),
    ("application/x-www-form-urlencoded", b"%ff=%00&=&;"),
    ("multipart/form-data", b"no boundary"),
    ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="file"; filename="\0"\r\n\r\n'),
    ("text/plain", b"\xff"),
    ("application/octet-stream", b"\x00"),
    ("", b"{}"),
    ("no type at all", b"{}"),
    ("application/json", b'"' + b"9" * 5000),
]
VERBS = ("get", "post")
TAKES_KEYS = {FeedbackView}
"""Views that don't authenticate members: they take a key that may be embedded in web pages, or a researcher's token. Anybody else is told so."""


def endpoints() -> list[tuple[str, Any, str]]:
    """Every API URL with each of its methods."""
    operations = []
    for pattern in chain.from_iterable(app.api for app in APIS):
        assert isinstance(pattern, URLPattern)
        view: Any = pattern.callback
        address = f"/api/v1/{pattern.pattern}"
        operations += [(address, view.view_class, verb) for verb in VERBS if hasattr(view.view_class, verb)]
    return operations


def filled_in(address: str) -> str:
    for kind, value in (("<int:", "1"), ("<slug:", "training_runs"), ("<uuid:", str(new_id()))):
        while (begin := address.find(kind)) >= 0:
            address = address[:begin] + value + address[address.index(">", begin) + 1 :]
    return address


ENDPOINTS = endpoints()


def test_every_address_is_a_members_view() -> None:
    assert len(ENDPOINTS) > 40
    assert {view for _, view, _ in ENDPOINTS if not issubclass(view, MemberView)} == TAKES_KEYS


@pytest.mark.parametrize("how", ["token", "session with its CSRF token"])
def test_who_may_not_know_of_an_address_gets_404_whatever_they_send(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody who isn't signed in gets anything but 401."""
    monkeypatch.setattr(MemberRateThrottle, "THROTTLE_RATES", {"member": None})  # more than the rate limit per minute
    annotator, outsider = factories.member(Role.ANNOTATOR), factories.member(Role.OWNER)
    clients = {"annotator": client_of(annotator, how), "outsider": client_of(outsider, how), "stranger": Client()}
    # Bodies are read before any view runs, in the same way for all views and either kind of sign-in, so the views share them out.
    share = cycle(range(3 if how == "token" else len(BODIES)))
    wrong = []
    for address, view, verb in ENDPOINTS:
        here = filled_in(address)
        expected = {"stranger": 401}
        if view in TAKES_KEYS:
            expected["annotator"] = 401
        elif max(view.needs, view.needs_to_write if verb == "post" else 0) > Role.ANNOTATOR:
            expected["annotator"] = 404
        if "<uuid:" in address:  # of another workspace, or nonexistent
            expected["outsider"] = 404
        for who, status in expected.items():
            for content_type, body in (
                BODIES[next(share) :: 3 if how == "token" else len(BODIES)] if verb == "post" else BODIES[2:3]
            ):
                answer = clients[who].generic(verb.upper(), here, body, content_type=content_type)
                if answer.status_code != status or "detail" not in answer.json():
                    wrong.append((who, verb, address, content_type, answer.status_code))
    assert wrong == []


def client_of(member: Any, how: str) -> Client:
    if how == "token":
        return Client(headers={"authorization": f"Bearer {factories.token(member)}"}, raise_request_exception=False)
    client = Client(enforce_csrf_checks=how == "session", raise_request_exception=False)
    client.force_login(member.user)
    return client


def test_a_session_without_its_csrf_token_changes_nothing() -> None:
    client = client_of(factories.member(Role.OWNER), "session")
    answer = client.post("/api/v1/datasets", {"name": "x"}, content_type="application/json")
    assert (answer.status_code, "CSRF token" in answer.json()["detail"]) == (403, True)
    assert client.get("/api/v1/datasets").json()["results"] == []


def test_a_session_with_its_csrf_token_may() -> None:
    client = client_of(factories.member(Role.OWNER), "session")
    client.get("/")
    token = client.cookies["csrftoken"].value
    headers = {"X-CSRFToken": token}
    assert client.post("/api/v1/datasets", {"name": "x"}, "application/json", headers=headers).status_code == 201
    assert client.post("/api/v1/datasets", {"name": "y", "csrfmiddlewaretoken": token}).status_code == 201
