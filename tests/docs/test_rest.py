"""docs/rest.md names every address of the REST API and every parameter of its queries, and no other address."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "rest.md").read_text()
OF_EVERY_LIST = {"cursor", "page_size"}


@pytest.fixture(scope="module")
def paths() -> dict[str, dict[str, Any]]:
    """The operations of each address, whose variable parts are named as in the page."""
    out = StringIO()
    call_command("spectacular", "--format", "openapi-json", api_version="v1", stdout=out)
    return {as_in_page(path): verbs for path, verbs in json.loads(out.getvalue())["paths"].items()}


def as_in_page(path: str) -> str:
    return re.sub(r"\{\w+\}", "<id>", path.replace("{number}", "<n>").replace("{kind}", "<kind>"))


def test_every_address_is_documented(paths: dict[str, dict[str, Any]]):
    whole = set(re.findall(r"(/api/v1/[\w/<>-]+)", PAGE))
    endings = set(re.findall(r"…(/[\w/<>-]+)", PAGE))
    assert {path for path in paths if path not in whole and not path.endswith(tuple(endings))} == set()


def test_every_documented_address_exists(paths: dict[str, dict[str, Any]]):
    named = {re.sub(r"\$\w+", "<id>", path) for path in re.findall(r"(/api/v1/[\w/<>$-]+[\w>])", PAGE)}
    assert named <= set(paths)


def test_every_parameter_of_a_query_is_documented(paths: dict[str, dict[str, Any]]):
    parameters = {
        (path, parameter["name"])
        for path, verbs in paths.items()
        for described in verbs.values()
        for parameter in described.get("parameters", [])
        if parameter["in"] == "query" and parameter["name"] not in OF_EVERY_LIST
    }
    assert {it for it in parameters if not re.search(rf"[`?&]{it[1]}[`=]", PAGE)} == set()
