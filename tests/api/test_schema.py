"""The API describes itself completely: no warning, and every operation says how it refuses."""

from io import StringIO
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.test import Client


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """Validated, and made without one warning."""
    out = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", api_version="v1", stdout=out)
    found = yaml.safe_load(out.getvalue())
    assert found["paths"]
    return found


def operations(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{verb} {path}", it) for path, verbs in schema["paths"].items() for verb, it in verbs.items()]


def test_every_operation_has_an_answer_for_strangers_and_for_the_hasty(schema: dict[str, Any]) -> None:
    for name, operation in operations(schema):
        assert {"401", "404", "429"} <= operation["responses"].keys(), name
        assert "Retry-After" in operation["responses"]["429"]["headers"], name


def test_every_operation_takes_a_bearer_token(schema: dict[str, Any]) -> None:
    for name, operation in operations(schema):
        assert {"bearer": []} in operation["security"], name


def test_every_operation_says_what_it_does(schema: dict[str, Any]) -> None:
    for name, operation in operations(schema):
        assert operation.get("summary") or operation.get("description"), name


def test_rows_can_be_had_as_json_lines_and_as_parquet(schema: dict[str, Any]) -> None:
    rows = schema["paths"]["/api/v1/datasets/{dataset_id}/versions/{number}/rows"]["get"]
    assert set(rows["responses"]["200"]["content"]) == {"application/jsonl", "application/vnd.apache.parquet"}


def test_the_served_schema_has_the_same_paths(client: Client, schema: dict[str, Any]) -> None:
    served = yaml.safe_load(client.get("/api/schema/").content)
    assert served["paths"].keys() == schema["paths"].keys()
