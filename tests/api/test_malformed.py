"""Malformed requests: each is refused with a JSON message, and none causes a server error."""

import time
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from rest_framework import serializers

from apps.accounts.models import Role
from apps.common.api import RequestSerializer
from apps.common.ids import new_id
from apps.common.json_answer import ApiRenderer
from apps.common.text_encoding import escaped
from tests import factories
from tests.api.test_access import ENDPOINTS, filled_in

pytestmark = pytest.mark.django_db

SURROGATE = "\\ud800"
NOBODYS = "00000000-0000-7000-8000-000000000000"
"""A nonexistent id, the same in every process that collects these tests."""


@pytest.fixture
def client() -> Client:
    token = factories.token(factories.member(Role.OWNER))
    return Client(headers={"authorization": f"Bearer {token}"}, raise_request_exception=False)


def post(
    client: Client, body: bytes | str, address: str = "/api/v1/datasets", content_type: str = "application/json"
) -> Any:
    sent = body.encode() if isinstance(body, str) else body
    return client.generic("POST", address, sent, content_type=content_type)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"name": ' + "9" * 5000 + "}", "A number has 5,000 digits; expected at most 300."),
        ('{"name": -' + "9" * 301 + "}", "A number has 301 digits; expected at most 300."),
        ('{"name": 1e999}', "The number 1e999 is too large; expected one that 64 bits can hold."),
        ('{"name": NaN}', "NaN isn't a number in JSON. Send null for a missing value."),
        ('{"name": -Infinity}', "-Infinity isn't a number in JSON. Send null for a missing value."),
        ('{"name": "a", "name": "b"}', "An object has the name “name” twice; expected each name once."),
        (
            f'{{"{SURROGATE}\\u0000": 1, "{SURROGATE}\\u0000": 2}}',
            r"An object has the name “\ud800\x00” twice; expected each name once.",
        ),
        (b'{"name": "\xff"}', "The body isn't UTF-8: byte 10 can't be read."),
        ("[" * 100_000, "JSON parse error - it is nested too deeply."),
        ('{"a":' * 100_000, "JSON parse error - it is nested too deeply."),
        ("", "name: This field is required."),
        ("[]", "Invalid data. Expected a dictionary, but got list."),
        ('"name"', "Invalid data. Expected a dictionary, but got str."),
        ("[" + "[{}]," * 40_000 + "0]", "The body has more than 100,000 values. Send less at once."),
    ],
)
def test_json_that_nobody_means_is_refused_in_our_words(client: Client, body: bytes | str, words: str) -> None:
    answer = post(client, body)
    assert (answer.status_code, words in answer.json()["detail"]) == (400, True), answer.content


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{" + "".join(f'"{i}": 1, ' for i in range(60_000)) + '"59999": 2}', "has the name “59999” twice"),
        (f'{{"name": [{"1," * 20_000} 1]}}', "A list has 20,001 entries; expected at most 20,000."),
        (
            '{"name": {' + ", ".join(f'"{i}": 1' for i in range(20_001)) + "}}",
            "An object has 20,001 entries; expected at most 20,000.",
        ),
    ],
    ids=["a name twice among many", "a long list", "a wide object"],
)
def test_a_large_body_of_json_is_refused_at_once(client: Client, body: str, words: str) -> None:
    """These once blocked the process; the first, of 700 kB, for three minutes."""
    before = time.process_time()
    answer = post(client, body)
    assert (answer.status_code, words in answer.json()["detail"]) == (400, True), answer.content
    assert time.process_time() - before < 5


def test_a_body_of_another_charset_is_refused_whatever_it_holds(client: Client) -> None:
    for charset in ("utf-16", "latin-1", "base64", "rot13", "no-such", '"\\"'):
        for kind in ("application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = post(client, "{}", content_type=f"{kind}; charset={charset}")
            assert answer.status_code == 415, (charset, kind)
            assert "Send UTF-8" in answer.json()["detail"]


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf-8"', "utf8"])
def test_utf8_may_be_said(client: Client, charset: str) -> None:
    answer = post(client, '{"name": "é"}', content_type=f"application/json; charset={charset}")
    assert (answer.status_code, answer.json()["name"]) == (201, "é")


def test_what_a_refusal_quotes_is_printable_and_short(client: Client) -> None:
    name = "a" * 100_000
    answer = post(client, f'{{"{SURROGATE}": 1, "\\u202e\\u0000": 2, "{name}": 3}}', "/api/v1/rollouts")
    assert answer.status_code == 400
    assert answer.json()["fields"].keys() >= {r"\ud800", r"\u202e\x00", f"{'a' * 99}…"}
    answer = post(client, "{" + ", ".join(f'"x{n}": 1' for n in range(1000)) + "}", "/api/v1/rollouts")
    assert len(answer.json()["fields"]) == 50


def test_answers_hold_lone_surrogates_as_their_escapes() -> None:
    assert HttpResponse("é\ud800").content == "é\\ud800".encode()
    assert HttpResponse("é", content_type="text/plain; charset=latin-1").content == b"\xe9"
    assert HttpResponse(b"\xff").content == b"\xff"
    assert escaped("é\udfff") == "é\\udfff"


def test_the_apis_json_holds_lone_surrogates_as_their_escapes() -> None:
    assert ApiRenderer().render({"text": "é\ud800"}) == b'{"text":"\\u00e9\\ud800"}'
    assert ApiRenderer().render({"text": "é"}) == '{"text":"é"}'.encode()


def test_json_in_fields_is_refused_where_it_holds_what_cant_be_stored(client: Client) -> None:
    """All fields of every request are tested, so that new ones are covered."""
    fields = [
        (request, name, field)
        for request in _requests(RequestSerializer)
        for name, field in request().fields.items()
        if isinstance(field, serializers.JSONField | serializers.DictField) and not field.read_only
    ]
    assert len(fields) >= 4
    for request, name, field in fields:
        text = {"a": "\0"} if isinstance(field, serializers.DictField) else [{"\ud800": 1}]
        form = request(data={name: text}, partial=True)
        assert (form.is_valid(), name in form.errors) == (False, True), (request, name)


def _requests(base: type[RequestSerializer]) -> list[type[RequestSerializer]]:
    return [serializer for direct in base.__subclasses__() for serializer in (direct, *_requests(direct))]


QUERIES_OF_ALL = [
    *(
        "page_size=" + "9" * 5000,
        "cursor=" + "9" * 5000,
        "cursor=%00",
        "page_size=%EF%BC%91",
        "page_size=-1",
        "cursor=%ff%fe",
    ),
    *(
        "%",
        "%zz=%zz",
        "&&&&",
        "=",
        "a" * 10_000,
        "%ED%A0%80=%ED%A0%80",
        "page_size=1&page_size=2",
        "format=" + "x" * 3000,
    ),
]
"""These are read in the same way for every view, so the views share them out."""
QUERIES = [
    *("q=%00", "task=" + "9" * 5000, "rollouts=%00", "rollouts=" + "9" * 5000, "filename=%00%0d%0a", "policy=%00"),
]


def test_odd_queries_and_headers_are_no_faults(client: Client) -> None:
    odd: list[dict[str, str]] = [
        *(
            {"Range": value}
            for value in ("bytes=9-1", "bytes=-", "bytes=" + "9" * 5000 + "-", "lines=1-2", "bytes=0-0,2-3", "\xff")
        ),
        *({"If-None-Match": value} for value in ('"', "*" * 10_000, 'W/"x", "y"', "\xff\xfe")),
        *({"If-Modified-Since": value} for value in ("yesterday", "9" * 5000, "Mon, 99 Foo 9999999 99:99:99 GMT")),
        *({"If-Range": value} for value in ('"', "yesterday")),
        *({"Accept": value} for value in ("*", "application/json;q=x", "text/html", "a/b;" * 2000, "\xff")),
        *(
            {"Authorization": value}
            for value in ("Bearer", "Bearer \xff", "Bearer " + "x" * 10_000, "Basic x", "\xff", "bearer rt_ rt_")
        ),
        *(
            {"Cookie": value}
            for value in (
                "sessionid=\x01\xff",
                "a" * 20_000,
                "=;=;=",
                "sessionid=" + "9" * 5000,
                "csrftoken=\xff; sessionid=x",
            )
        ),
        *({"Idempotency-Key": value} for value in ("\xff", "x" * 10_000)),
        *({"X-CSRFToken": value} for value in ("\xff", "x" * 5000)),
        *({"X-HTTP-Method-Override": value} for value in ("PUT", "\xff")),
        *({"HX-Current-URL": value} for value in ("http://[", "\xff", "javascript:alert(1)")),
        *({"X-Forwarded-For": value} for value in ("\xff", "x" * 5000)),
    ]
    wrong = []
    addresses = {address for address, _, verb in ENDPOINTS if verb == "get"}
    for number, address in enumerate(sorted(addresses)):
        for query in (*QUERIES_OF_ALL[number % 4 :: 4], *(QUERIES if "<" not in address else ())):
            answer = client.get(f"{filled_in(address)}?{query}")
            if answer.status_code >= 500:
                wrong.append((address, query[:40], answer.status_code))
    for headers in odd:
        for address in (
            "/api/v1/trajectories",
            f"/api/v1/datasets/{new_id()}/versions/1/rows",
            "/",
            "/sign-in/",
            "/static/css/tokens.css",
        ):
            answer = client.get(address, headers=headers)
            if answer.status_code >= 500:
                wrong.append((address, str(headers)[:60], answer.status_code))
    assert wrong == []


@pytest.mark.parametrize(
    "path",
    [
        "/%00", "/%ff%fe", "/" + "a" * 20_000, "/%ED%A0%80", "/..%2f..%2fetc/passwd", "//", "/\\", "/%0d%0aX: y", "/queues/%00/",
        "/static/%00", "/static/%ff", "/static/" + "a" * 5000, "/static/../apps/settings.py", "/static/%2e%2e/%2e%2e/manage.py",
        "/api/v1/%00", "/api/v1/datasets/" + "9" * 5000, f"/api/v1/datasets/{NOBODYS}/versions/" + "9" * 5000,
        f"/api/v1/datasets/{NOBODYS}/versions/" + "9" * 30,
        f"/api/v1/datasets/{NOBODYS}/versions/٣", "/api/schema/?format=%00", "/api/schema/?version=" + "9" * 5000,
    ],
)  # fmt: skip
def test_odd_paths_are_not_found(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (200, 301, 302, 400, 404, 406), path


def test_odd_multipart_bodies_are_no_faults(client: Client) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n{}\r\n--x--\r\n'
    bodies = [
        b"", b"--x", b"--x--", b"--x\r\n\r\n", b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--",
        b"--x\r\nContent-Disposition: form-data; name=file\r\nContent-Transfer-Encoding: base64\r\n\r\n!!\r\n--x--",
        b"--x\r\nContent-Disposition: form-data; name*=utf-16''%ff\r\n\r\na\r\n--x--",
        *(part % name for name in (b"\0", b"../../x", b"x" * 5000, b"\xff\xfe", b".", b"\r\n", b"%00.jsonl", "\u202e.json".encode())),
        (b'--x\r\nContent-Disposition: form-data; name="%d"\r\n\r\n\r\n' * 300) % tuple(range(300)) + b"--x--",
    ]  # fmt: skip
    kinds = ["multipart/form-data; boundary=x", "multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "x" * 500,
             "multipart/form-data; boundary=\xff", "multipart/mixed; boundary=x"]  # fmt: skip
    wrong = []
    for kind in kinds:
        for body in bodies if kind == kinds[0] else bodies[:3]:
            for address in ("/api/v1/imports", "/api/v1/datasets"):
                answer = post(client, body, address, kind)
                if answer.status_code >= 500 or "json" not in answer.headers["Content-Type"]:
                    wrong.append((kind, body[:60], address, answer.status_code))
    assert wrong == []


def test_a_form_with_more_fields_than_django_reads_is_refused_as_json(client: Client) -> None:
    answer = post(client, "&".join(f"a{n}=1" for n in range(20_001)), content_type="application/x-www-form-urlencoded")
    assert (answer.status_code, "detail" in answer.json()) == (400, True)
    assert "more than 20,000 fields" in answer.json()["detail"]


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded"])
def test_a_body_that_is_too_long_is_told_the_limit_and_fills_no_log(client: Client, content_type: str, caplog) -> None:
    body = "name=" + "a" * 6_000_000
    answer = post(client, body, content_type=content_type)
    assert (answer.status_code, "more than 5.2 MB besides files" in answer.json()["detail"]) == (413, True)
    page = post(client, body, "/sign-in/", "application/x-www-form-urlencoded")
    assert (page.status_code, "more than 5.2 MB besides files" in page.text) == (413, True)
    assert [record for record in caplog.records if record.exc_info] == []
