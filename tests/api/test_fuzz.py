"""Valid and invalid requests generated from the API's OpenAPI description, sent by every role.

Each response has a status and a body that the description declares, and is never a server error. Small by
default; `pytest --hypothesis-profile=explore tests/api/test_fuzz.py` runs a hundred times as many.
"""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from itertools import cycle
from typing import Any
from uuid import UUID

import httpx
import pytest
import requests
import schemathesis
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from apps.accounts.authentication import MemberRateThrottle
from apps.accounts.models import Membership, Role
from tests import factories
from tests.accounts.clients import body_of

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(1200)]  # thousands of requests

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SURROGATE = "lone-surrogate"
"""Placeholder for a lone surrogate until the body is encoded: Schemathesis can't check values that UTF-8 can't encode."""
HOSTILE: list[Any] = [
    *(SURROGATE, "\0", "x" * 100_000, "9" * 5000, "\u202e", "", "٣", "NaN", "2026-13-45", "../..", "http://["),
    *(10**299, -(10**20), 1e308, -0.0, [], {}, [[]], [None], {SURROGATE: SURROGATE}, None, True),
    *([SURROGATE] * 1000, {str(number): number for number in range(1000)}),
]
"""Values to substitute for a field's own."""
CASES = max(2, settings.default.max_examples // 50)
"""Valid requests per operation, and as many invalid ones."""


@pytest.fixture(scope="module")
def operations() -> list[Any]:
    out = StringIO()
    call_command("spectacular", "--format", "openapi-json", api_version="v1", stdout=out)
    schema = schemathesis.openapi.from_dict(json.loads(out.getvalue()))
    return [operation.ok() for operation in schema.get_all_operations()]


@pytest.fixture
def tokens(owner: Membership, labeler: Membership, things: dict[str, Any]) -> dict[str, str]:
    """Clients of all callers, by name."""
    members = {
        "owner": owner,
        "researcher": factories.member(Role.RESEARCHER, of=owner.workspace),
        "reviewer": factories.member(Role.REVIEWER, of=owner.workspace),
        "annotator": labeler,
        "outsider": factories.member(Role.OWNER),
    }
    return {name: factories.token(member) for name, member in members.items()}


@pytest.fixture(autouse=True)
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemberRateThrottle, "THROTTLE_RATES", {"member": None})


def test_everything_is_answered_as_it_is_described(
    operations: list[Any], things: dict[str, Any], tokens: dict[str, str]
) -> None:
    assert len(operations) > 50
    statuses: set[int] = set()
    problems: dict[str, str] = {}
    others = cycle(name for name in tokens if name not in ("owner", "outsider"))
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            for number, case in enumerate(cases_of(operation, mode, things)):
                senders = {"owner"}
                if (
                    number == 0 and mode is GenerationMode.POSITIVE
                ):  # access is decided before anything is read of a body
                    senders |= {"outsider", next(others)}
                for who in sorted(senders):
                    if problem := answer_to(case, tokens[who], statuses):
                        problems.setdefault(f"{operation.label} as {who}", problem)
    assert not problems, "\n\n".join(f"{name}: {problem}" for name, problem in problems.items())
    assert {200, 201, 202, 400, 404, 409} <= statuses


def cases_of(operation: Any, mode: GenerationMode, things: dict[str, Any]) -> list[Case]:
    cases = []

    @settings(max_examples=CASES, database=None, phases=[Phase.generate])
    @given(st.data())
    def make(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        put_real_ids(case, things, data)
        cases.append(case)

    make()
    return cases


def answer_to(case: Case, token: str, statuses: set[int]) -> str:
    """What is wrong with the response, empty if nothing. The request's changes are rolled back."""
    request = requests.Request(**case.as_transport_kwargs(base_url="http://testserver")).prepare()
    client = Client(headers={**request.headers, "authorization": f"Bearer {token}"}, raise_request_exception=False)
    body = request.body.encode() if isinstance(request.body, str) else request.body or b""
    body = body.replace(SURROGATE.encode(), rb"\ud800")
    with transaction.atomic():
        answer = client.generic(
            case.method, request.path_url, body, content_type=request.headers.get("Content-Type", "")
        )
        content = body_of(answer)
        transaction.set_rollback(True)
    statuses.add(answer.status_code)
    response = httpx.Response(
        answer.status_code,
        headers=dict(answer.headers),
        content=content,
        request=httpx.Request(case.method, request.url or "", content=body),
    )
    response.elapsed = timedelta()
    try:
        case.validate_response(response, checks=CHECKS)
    except FailureGroup as failures:
        return f"{answer.status_code} for {body[:200]!r}: " + "; ".join(map(str, failures.exceptions))
    return ""


def put_real_ids(case: Case, things: dict[str, Any], data: st.DataObject) -> None:
    """Existing ids in the URL and the body, since requests with others are rejected early."""
    if data.draw(st.integers(0, 4)):
        names = {"batch_id": "import_id"} if "/imports" in case.path else {}
        for name in case.path_parameters or {}:
            case.path_parameters[name] = str(things[names.get(name, name)])
    if isinstance(case.body, dict) and case.media_type == "application/json":
        ids = st.sampled_from(sorted({str(thing) for thing in things.values() if isinstance(thing, UUID)}))
        for name, value in case.body.items():
            if is_id(value):
                case.body[name] = data.draw(ids)
        if data.draw(st.booleans()):
            case.body[data.draw(st.sampled_from([*case.body, SURROGATE]))] = data.draw(st.sampled_from(HOSTILE))


def is_id(value: Any) -> bool:
    try:
        return bool(isinstance(value, str) and UUID(value))
    except ValueError:
        return False
