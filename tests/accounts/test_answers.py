"""Properties of every response: caching, redirects, and that outsiders learn nothing from it."""

import re
from itertools import cycle
from typing import Any
from uuid import UUID

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import get_resolver

from apps.accounts.models import Membership, Role
from apps.common.ids import new_id
from tests import factories
from tests.accounts.clients import as_, body_of
from tests.addresses import ASKED, PUBLIC, SENT, Address, routes

pytestmark = pytest.mark.django_db

EVIL = "https://evil.example/x"
LEADING = (
    "Location",
    "Content-Location",
    "Refresh",
    "Link",
    "HX-Redirect",
    "HX-Location",
    "HX-Push-Url",
    "HX-Replace-Url",
)
ONWARD = [EVIL, "//evil.example", "/\\evil.example", "\\\\evil.example", "/\t/evil.example", "javascript:x"]
ODD = [{"If-None-Match": "*"}, {"Range": "bytes=0-0"}, {"HX-Request": "true"}]


def test_what_is_private_is_kept_by_no_shared_cache(
    owner: Membership, labeler: Membership, addresses: list[Address]
) -> None:
    kept = set()
    for client in (as_(owner), as_(labeler)):
        for address in addresses:
            answer = client.get(address.path, ASKED.get(address.name))
            if address.name not in PUBLIC and not {"private", "no-store"} & set(directives(answer)):
                kept.add(address.name)
    assert kept == set()


def directives(answer: Any) -> list[str]:
    return re.split(r"\s*,\s*", answer.get("Cache-Control", ""))


def test_signing_out_empties_what_the_browser_kept(owner: Membership) -> None:
    assert as_(owner).post("/sign-out/")["Clear-Site-Data"] == '"cache"'


def test_no_answer_leads_to_another_site(owner: Membership, labeler: Membership, addresses: list[Address]) -> None:
    headers = {"referer": EVIL, "HX-Current-URL": EVIL, "X-Forwarded-Host": "evil.example", "origin": EVIL}
    wrong, onward = [], cycle(ONWARD)
    for client in (as_(owner), as_(labeler)):
        for address in addresses:
            sent = {**ASKED.get(address.name, {}), **SENT.get(address.name, {}), "next": next(onward)}
            with transaction.atomic():
                for verb in ("get", "post"):
                    answer = getattr(client, verb)(address.path, sent, headers=headers)
                    told = [answer[name] for name in LEADING if name in answer]
                    wrong += [(address.name, verb, where) for where in told if leads_away(where)]
                transaction.set_rollback(True)
    assert wrong == []


@pytest.mark.parametrize("onward", ONWARD)
@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true", "HX-Current-URL": EVIL}])
def test_signing_in_leads_to_no_other_site(
    client: Client, owner: Membership, onward: str, headers: dict[str, str]
) -> None:
    sent = {"email": owner.user.email, "password": "pass-phrase-1", "next": onward}
    answer = client.post("/sign-in/", sent, headers=headers)
    assert answer.status_code in (200, 302)
    assert not any(leads_away(answer[name]) for name in LEADING if name in answer)


def leads_away(where: str) -> bool:
    return bool(re.match(r"\s*(?:[/\\]\s*[/\\]|\w+:(?!//testserver/))", where, re.ASCII))


def test_where_an_answer_leads_is_understood() -> None:
    away = ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:x", " //x", "/\t/x"]
    assert all(map(leads_away, away))
    assert not any(map(leads_away, ["/", "/sign-in/?next=//evil.example", "http://testserver/api/v1/runs/1"]))


def test_head_tells_no_more_than_get(owner: Membership, addresses: list[Address]) -> None:
    """The response is GET's, without the body."""
    client, wrong = as_(owner), []
    for address in addresses:
        got, head = (getattr(client, verb)(address.path, ASKED.get(address.name)) for verb in ("get", "head"))
        if head.status_code != got.status_code or body_of(head):
            wrong.append((address.name, got.status_code, head.status_code))
    assert wrong == []


def test_outsiders_cannot_tell_what_others_have_from_what_nobody_has(things: dict[str, Any]) -> None:
    """For no method and no header: both responses are byte-identical."""
    outsider = factories.member(Role.OWNER)
    token = Client(headers={"authorization": f"Bearer {factories.token(outsider)}"}, raise_request_exception=False)
    browser = as_(outsider)
    browser.raise_request_exception = False
    nobodys = {name: new_id() if isinstance(thing, UUID) else thing for name, thing in things.items()}
    nobodys |= {"item_id": 2**40, "membership_id": 2**40}
    told = set()
    for name, path in routes(get_resolver()):
        named = set(re.findall(r"{(\w+)}", path))
        if not named & {each for each in nobodys if nobodys[each] != things[each]} or name in PUBLIC:
            continue
        cache.clear()  # requests that count towards the rate limit, which a fast machine would reach
        for verb in ("GET", "POST", "OPTIONS", "DELETE"):
            for client in (browser, token) if path.startswith("/api/") else (browser,):
                for headers in ({}, *ODD) if verb == "GET" else ({},):
                    theirs, none = (
                        client.generic(verb, path.format(**each), headers=headers) for each in (things, nobodys)
                    )
                    if _told(theirs) != _told(none):
                        told.add((name, verb, *headers, theirs.status_code, none.status_code))
    assert told == set()


def _told(answer: Any) -> tuple[Any, ...]:
    """A response without the ids, dates, and secrets that differ between requests."""
    body = re.sub(
        rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b\d{6,}\b|nonce=\"[^\"]*\"|value=\"[^\"]{64}\"",
        b"",
        body_of(answer),
    )
    headers = {name: value for name, value in answer.items() if name not in ("Content-Length", "Date")}
    leading = re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", str(headers))
    return answer.status_code, re.sub(rb'"[\w-]{20,}"', b"", body), leading


def test_a_session_is_another_one_after_signing_in_and_ends_with_it(client: Client, owner: Membership) -> None:
    client.get("/sign-in/")
    session = client.session
    session["kept"] = "by a stranger"
    session.save()
    client.cookies["sessionid"] = before = session.session_key
    client.post("/sign-in/", {"email": owner.user.email, "password": "pass-phrase-1"})
    after = client.cookies["sessionid"].value
    assert after != before
    assert client.get("/profile/").status_code == 200
    client.cookies["sessionid"] = before
    assert client.get("/profile/").status_code == 302
    client.cookies["sessionid"] = after
    client.post("/sign-out/")
    client.cookies["sessionid"] = after
    assert client.get("/profile/").status_code == 302
