"""The OpenAPI description is complete: no warnings, and every operation declares its error responses."""

import json
import re
from io import StringIO
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from apps.accounts.models import Role
from apps.common.ids import new_id
from tests import factories


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The validated description, generated without warnings."""
    out = StringIO()
    call_command(
        "spectacular", "--validate", "--fail-on-warn", "--format", "openapi-json", api_version="v1", stdout=out
    )
    schema = json.loads(out.getvalue())
    assert schema["paths"]
    return schema


def operations(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{verb} {path}", it) for path, verbs in schema["paths"].items() for verb, it in verbs.items()]


def test_every_operation_has_an_answer_for_strangers_and_for_the_hasty(schema: dict[str, Any]) -> None:
    for name, operation in operations(schema):
        assert {"400", "401", "404", "429"} <= operation["responses"].keys(), name
        assert "Retry-After" in operation["responses"]["429"]["headers"], name


def test_every_operation_takes_a_bearer_token(schema: dict[str, Any]) -> None:
    for name, operation in operations(schema):
        assert {"bearer": []} in operation["security"], name


def test_every_operation_says_what_it_does(schema: dict[str, Any]) -> None:
    for name, operation in operations(schema):
        assert operation.get("summary") or operation.get("description"), name


def test_no_description_only_repeats_the_address(schema: dict[str, Any]) -> None:
    for name, operation in operations(schema):
        assert "/api/v1/" not in operation.get("description", ""), name


def test_rows_can_be_had_as_json_lines_and_as_parquet(schema: dict[str, Any]) -> None:
    rows = schema["paths"]["/api/v1/datasets/{dataset_id}/versions/{number}/rows"]["get"]
    assert set(rows["responses"]["200"]["content"]) == {"application/jsonl", "application/vnd.apache.parquet"}


def test_lists_are_described_as_the_pages_that_they_come_in(schema: dict[str, Any]) -> None:
    lists = [it for _, it in operations(schema) if it["operationId"].endswith("_list")]
    assert len(lists) == 38
    for operation in lists:
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        page = schema["components"]["schemas"][answer.rsplit("/", 1)[1]]
        assert set(page["properties"]) == {"next", "previous", "results"}, operation["operationId"]
        assert {"cursor", "page_size"} <= {parameter["name"] for parameter in operation["parameters"]}, operation[
            "operationId"
        ]


def test_the_served_schema_has_the_same_paths(client: Client, schema: dict[str, Any]) -> None:
    served = json.loads(client.get("/api/schema/", headers={"accept": "application/vnd.oai.openapi+json"}).content)
    assert served["paths"].keys() == schema["paths"].keys()


def test_the_schema_is_generated_once_for_all_strangers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [
        client.get("/api/schema/", headers={"accept": form}) for form in ("application/vnd.oai.openapi+json", "*/*")
    ]
    monkeypatch.setattr(SchemaGenerator, "get_schema", lambda *_, **__: pytest.fail("generated again"))
    again = [
        client.get("/api/schema/?lang=de&version=2", headers={"accept": answer["Content-Type"]}) for answer in first
    ]
    assert [answer.content for answer in again] == [answer.content for answer in first]
    assert json.loads(again[0].content)["paths"].keys() == yaml.safe_load(again[1].content)["paths"].keys()


@pytest.mark.django_db
def test_every_form_that_the_schema_promises_may_be_asked_for(client: Client, schema: dict[str, Any]) -> None:
    token = factories.token(factories.member(Role.OWNER))
    for path, verbs in schema["paths"].items():
        address = re.sub(r"\{number\}", "1", path)
        address = re.sub(r"\{\w+\}", str(new_id()), address)
        responses = verbs.get("get", {"responses": {}})["responses"].values()
        for form in {form for response in responses for form in response.get("content", {})}:
            headers = {"authorization": f"Bearer {token}", "accept": form}
            assert client.get(address, headers=headers).status_code in {200, 404}, (path, form)


def test_whatever_creates_something_takes_an_idempotency_key(schema: dict[str, Any]) -> None:
    without = {
        operation["operationId"]
        for name, operation in operations(schema)
        if name.startswith("post ")
        and not any(parameter["name"] == "Idempotency-Key" for parameter in operation.get("parameters", []))
    }
    assert without == {
        "queue_next",  # returns the current item
        "sessions_create",  # returns a secret, of which only the hash may be stored
        "episodes_lease",  # the same
        "webhooks_create",  # returns a secret, which isn't stored
        "webhooks_rotate",  # the same
        "feedback_keys_create",  # the same
        "invitations_create",  # the same
        "redaction_rules_test",  # creates and stores nothing
        "feedback_create",  # only a session's latest feedback counts
        "workspace_imports_create",  # a second one is refused, since the workspace has content or is being filled
    }
