"""Properties of every response: caching, redirects, and that outsiders learn nothing from it."""

import re
from itertools import cycle
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import get_resolver

from apps.accounts.models import Membership, Role
from apps.common.ids import new_id
from tests import factories
from tests.accounts.clients import as_, body_of, with_cookies_of
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
ODD = {"If-None-Match": "*", "Range": "bytes=0-0", "HX-Request": "true"}
FORM = "application/x-www-form-urlencoded"


def test_what_is_private_is_kept_by_no_shared_cache_and_head_tells_no_more_than_get(
    owner: Membership, labeler: Membership, addresses: list[Address]
) -> None:
    kept, wrong, read = set(), [], set()
    for client in (as_(owner), as_(labeler)):  # the second reads what owners don't
        for address in addresses:
            if address.name in read:
                continue
            got, head = (getattr(client, verb)(address.path, ASKED.get(address.name)) for verb in ("get", "head"))
            if address.name not in PUBLIC and not {"private", "no-store"} & set(directives(got)):
                kept.add(address.name)
            if head.status_code != got.status_code or body_of(head):
                wrong.append((address.name, got.status_code, head.status_code))
            if got.status_code == 200 or address.path.startswith("/api/"):
                read.add(address.name)
    assert kept == set()
    assert wrong == []


def directives(answer: Any) -> list[str]:
    return re.split(r"\s*,\s*", answer.get("Cache-Control", ""))


def test_signing_out_empties_what_the_browser_kept(owner: Membership) -> None:
    assert as_(owner).post("/sign-out/")["Clear-Site-Data"] == '"cache"'


def test_no_answer_leads_to_another_site(owner: Membership, labeler: Membership, addresses: list[Address]) -> None:
    headers = {"referer": EVIL, "HX-Current-URL": EVIL, "X-Forwarded-Host": "evil.example", "origin": EVIL}
    wrong, served, onward = [], set(), cycle(ONWARD)
    for signed_in in (as_(owner), as_(labeler)):  # the second opens what owners don't
        for address in addresses:
            if address.name in served:
                continue
            client = with_cookies_of(signed_in)  # signing out, for one, leaves none
            sent = {**ASKED.get(address.name, {}), **SENT.get(address.name, {})}
            with transaction.atomic():
                for verb, where_to in (("get", EVIL), ("post", next(onward))):
                    answer = getattr(client, verb)(address.path, {**sent, "next": where_to}, headers=headers)
                    values = [answer[name] for name in LEADING if name in answer]
                    wrong += [(address.name, verb, where) for where in values if leads_away(where)]
                    if answer.status_code not in (404, 405):
                        served.add(address.name)
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


def test_outsiders_cannot_tell_what_others_have_from_what_nobody_has(things: dict[str, Any]) -> None:
    """With any method and any header, both responses are byte-identical and not found."""
    outsider = factories.member(Role.OWNER)
    token = Client(headers={"authorization": f"Bearer {factories.token(outsider)}"}, raise_request_exception=False)
    signed_in = as_(outsider)
    nobodys = {name: new_id() if isinstance(thing, UUID) else thing for name, thing in things.items()}
    nobodys |= {"item_id": 2**40, "membership_id": 2**40}
    responses, found = set(), set()
    # Authentication, and the response to unsupported methods, don't depend on the view: URLs share these.
    swapped, others = cycle([False, True]), cycle(["OPTIONS", "DELETE"])
    for name, path in routes(get_resolver()):
        if "{" not in path or name in PUBLIC:
            continue
        cache.clear()  # requests that count towards the rate limit, which a fast machine would reach
        browser = with_cookies_of(signed_in)  # without the cookies of earlier responses
        first, second = (browser, token if path.startswith("/api/") else browser)[:: -1 if next(swapped) else 1]
        query = f"?{urlencode(ASKED[name])}" if name in ASKED else ""
        for client, verb, headers in (
            (first, "GET", {}),
            (second, "GET", ODD),
            (second, "POST", {}),
            (first, next(others), {}),
        ):
            theirs, none = (
                client.generic(verb, path.format(**ids) + query, urlencode(SENT.get(name, {})), FORM, headers=headers)
                for ids in (things, nobodys)
            )
            if _comparable(theirs) != _comparable(none):
                responses.add((name, verb, *headers, theirs.status_code, none.status_code))
            if verb in ("GET", "POST") and theirs.status_code not in (404, 405):
                found.add(name)
    assert responses == set()
    assert found == {
        "arena:roll_back"
    }  # environment names are global; champions are looked up in the member's own workspace


def _comparable(answer: Any) -> tuple[Any, ...]:
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
