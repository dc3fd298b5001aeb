"""Every URL that takes a form, with unexpected data: none of it causes a server error.

URLs come from the URL conf and field names from the forms and pages, so new ones are covered. Small by
default; `pytest --hypothesis-profile=explore tests/common/test_form_fuzz.py` runs a hundred times as many.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from html.parser import HTMLParser
from itertools import cycle

import pytest
from django import forms
from django.apps import apps
from django.db import transaction
from django.test import Client
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Membership
from tests.accounts.clients import with_cookies_of
from tests.addresses import ASKED, PUBLIC, SENT, Address
from tests.common.test_query_counts import ALIKE_FOR_NO_TWO

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(1200)]  # thousands of requests

SURROGATE = "%ED%A0%80"
HOSTILE = [
    *("%00", SURROGATE, "%FF%FE", "9" * 5000, "-1", "NaN", "Infinity", "1e999", "9" * 20, "%EF%BC%91", "0x10", "1_0"),
    *(
        "[" * 5000,
        "%7B%22%5Cud800%22%3A%22%5Cud800%22%7D",
        "null",
        "%5B%5B%5D%5D",
        "%5B%7B%7D%5D",
        "%7B%7D",
        "%5BNaN%5D",
    ),
    *(
        "x" * 100_000,
        "../../etc/passwd",
        "http%3A%2F%2F%5B",
        "javascript:x",
        "%0D%0Aa: b",
        "%E2%80%AE",
        "true",
        "",
        "%",
    ),
    *("00000000-0000-7000-8000-000000000000", "2026-13-45", "9999999-01-01T00:00", "-0", "%2F%2Fevil.example", "()"),
]
"""Values of fields, as sent in a body."""
BODIES = [
    ("application/x-www-form-urlencoded; charset=utf-16", b"a=b"),
    ("application/x-www-form-urlencoded; charset=base64", b"a=b"),
    ("application/x-www-form-urlencoded", b"%ff=%00&=&;" + b"&a" * 100),
    ("application/x-www-form-urlencoded", b"&".join(b"a%d=" % n for n in range(20_001))),
    ("multipart/form-data", b"no boundary"),
    (
        "multipart/form-data; boundary=x",
        b"--x\r\nContent-Disposition: form-data; name=file; filename=\0\r\n\r\n\r\n--x--",
    ),
    ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data\r\n\r\n\xff"),
    ("application/json", b'{"name": "\\ud800"}'),
    ("text/plain", b"\xff"),
    ("", b"\x00"),
]
HEADERS = [
    {name: value}
    for name in ("Referer", "HX-Current-URL", "HX-Target", "Accept-Language", "User-Agent", "X-Forwarded-For")
    for value in ("http://[", "\xff", "x" * 5000, "//")
]
IS_EXPLORING = settings.default.max_examples > 1000
RANDOM = settings.default.max_examples // 30 if IS_EXPLORING else 2
"""Forms per URL, with a few invalid fields among valid ones."""
SHARE = 1 if IS_EXPLORING else 20
"""Each URL gets one in so many of the values above, the next URL others."""
SHIFTS = (0, 7, 15)
"""Where to begin in HOSTILE when each field gets another of its values."""


class Forms(HTMLParser):
    """The forms of a page: their actions, and the data that they would submit unchanged."""

    def __init__(self, html: str, path: str) -> None:
        super().__init__()
        self.path, self.action, self.select = path, "", ""
        self.found: dict[str, dict[str, str]] = defaultdict(dict)
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = (values.get("action") or values.get("hx-post") or self.path).partition("?")[0]
        name = values.get("name", "")
        if tag == "select":
            self.select = name
        if tag == "option" and self.select:
            self._note(self.select, values.get("value", ""), chosen="selected" in values)
        if tag in ("input", "textarea", "button", "select") and name:
            quiet = values.get("type") in ("checkbox", "radio") and "checked" not in values
            self._note(name, values.get("value", ""), chosen=not quiet)
        for attribute in ("formaction", "hx-post"):
            if attribute in values:
                self.found[values[attribute].partition("?")[0]] |= self.found[self.action]

    def _note(self, name: str, value: str, *, chosen: bool) -> None:
        if chosen:
            self.found[self.action][name] = value
        else:
            self.found[self.action].setdefault(name, value)


@pytest.fixture
def clients(owner: Membership, labeler: Membership) -> list[Client]:
    forms = []
    for member in (owner, labeler):
        client = Client(raise_request_exception=False)
        client.force_login(member.user)
        forms.append(client)
    return forms


@pytest.fixture
def filled_in(clients: list[Client], addresses: list[Address]) -> dict[str, dict[str, str]]:
    """The data that pages would submit to a URL."""
    values: dict[str, dict[str, str]] = defaultdict(dict)
    opened = set()
    for client in clients:  # the second opens what owners don't
        for address in addresses:
            if address.path.startswith("/api/v1/") or address.name in opened:
                continue
            answer = client.get(address.path, ASKED.get(address.name), headers={"accept": "text/html"})
            if answer.status_code == 200 and address.name not in ALIKE_FOR_NO_TWO:
                opened.add(address.name)
            if not answer.streaming and answer.get("Content-Type", "").startswith("text/html"):
                for action, fields in Forms(answer.content.decode(), address.path).found.items():
                    values[action] |= fields
    return values


def names_of_fields() -> dict[str, set[str]]:
    """All field names of an app's form classes, by app."""
    values: dict[str, set[str]] = defaultdict(set)
    for app in apps.get_app_configs():
        if not app.name.startswith("apps."):
            continue
        for module in pkgutil.walk_packages([app.path], f"{app.name}."):
            if ".forms" in module.name:
                importlib.import_module(module.name)
    classes: list[type[forms.BaseForm]] = [forms.BaseForm]
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        if one.__module__.startswith("apps."):
            values[one.__module__.split(".")[1]] |= set(getattr(one, "base_fields", {}))
    return values


def test_no_form_is_a_fault(
    clients: list[Client], addresses: list[Address], filled_in: dict[str, dict[str, str]]
) -> None:
    names = names_of_fields()
    tried, problems = 0, {}
    for address in addresses:
        if address.path.startswith("/api/") or address.name in PUBLIC - {"accounts:sign_in", "accounts:join"}:
            continue
        client = _whose(clients, address)
        if client is None:
            continue
        tried += 1
        usual = {**filled_in[address.path], **SENT.get(address.name, {})}
        fields = sorted(names[address.name.partition(":")[0]] | set(usual))
        # One value in SHARE goes to every field, and all of them to one or a few fields each, since forms read their fields alike.
        values = [
            *([value] * len(fields) for value in HOSTILE[tried % SHARE :: SHARE]),
            *([*HOSTILE[shift:], *HOSTILE[:shift]] for shift in _shifts(tried)),
        ]
        bodies = [
            (URLENCODED, "&".join(map("=".join, zip(fields, cycle(value)))).encode()) for value in values if value
        ]
        # Bodies are read before a view runs, in the same way for all URLs, so the URLs share them out.
        for kind, body in [*bodies, *BODIES[tried % SHARE :: SHARE], *_few_wrong(usual, fields)]:
            for accept in ("text/html", "application/json"):
                if accept == "application/json" and not address.path.startswith("/desk/"):
                    continue
                with transaction.atomic():
                    answer = with_cookies_of(client).generic(
                        "POST", address.path, body, content_type=kind, headers={"accept": accept}
                    )
                    transaction.set_rollback(True)
                if answer.status_code > 499:
                    problems[address.name] = f"{answer.status_code} for {kind} {body[:300]!r}"
        for headers in HEADERS[tried % SHARE :: SHARE]:
            with transaction.atomic():
                status = (
                    with_cookies_of(client)
                    .post(address.path, usual, headers={"HX-Request": "true", **headers})
                    .status_code
                )
                transaction.set_rollback(True)
            if status > 499:
                problems[address.name] = f"{status} with {headers}"
    assert problems == {}
    assert tried > 60


URLENCODED = "application/x-www-form-urlencoded"


def _shifts(number: int) -> tuple[int, ...]:
    """All SHIFTS when exploring, otherwise one for each URL in turn."""
    return SHIFTS if IS_EXPLORING else (SHIFTS[number % len(SHIFTS)],)


def _whose(clients: list[Client], address: Address) -> Client | None:
    """A member who may submit a form to this URL."""
    for client in clients:
        with transaction.atomic():
            status = with_cookies_of(client).post(address.path, SENT.get(address.name)).status_code
            transaction.set_rollback(True)
        if status not in (404, 405):
            return client
    return None


def _few_wrong(usual: dict[str, str], fields: list[str]) -> list[tuple[str, bytes]]:
    bodies = []

    @settings(max_examples=RANDOM, database=None, phases=[Phase.generate])
    @given(
        st.dictionaries(st.sampled_from(fields or ["a"]), st.sampled_from(HOSTILE) | st.text(max_size=20), max_size=3)
    )
    def make(wrong: dict[str, str]) -> None:
        sent = {
            name: value.replace("%", "%25").replace("&", "%26").replace("+", "%2B") for name, value in usual.items()
        }
        bodies.append(
            (URLENCODED, "&".join(f"{n}={v}" for n, v in {**sent, **wrong}.items()).encode("utf-8", "replace"))
        )

    make()
    return bodies


def test_no_form_is_taken_without_its_csrf_token(owner: Membership, addresses: list[Address]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner.user)
    for address in addresses:
        if not address.path.startswith("/api/") and address.name not in PUBLIC:
            answer = client.post(address.path, SENT.get(address.name), headers={"origin": "https://evil.example"})
            assert answer.status_code == 403, (address.name, answer.status_code)


def test_the_fields_of_a_form_are_found() -> None:
    html = '<form action="/a/?b"><input name=c value=d><select name=e><option value=f><option value=g selected></select></form>'
    assert Forms(html, "/").found["/a/"] == {"c": "d", "e": "g"}
