"""The docs and REST describe configs as they are."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contract.configs import TRAINING_CONFIGS, run_config_from_json
from contract.configs.fields import fields_of
from contract.configs.schema import launch_schema, run_schema
from contract.schemas import DOCS, schemas, with_tables

SCHEMAS = DOCS / "schemas"
EARLIER: list[dict[str, Any]] = json.loads((Path(__file__).parent / "earlier_runs.json").read_text())


def test_the_schemas_in_the_docs_are_current():
    """`python -m contract` writes them."""
    assert {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in SCHEMAS.iterdir()} == schemas()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_the_tables_in_the_docs_are_current(page: Path):
    text = page.read_text(encoding="utf-8")
    assert with_tables(text) == text


@pytest.mark.parametrize("run", EARLIER, ids=[run["run"]["kind"] for run in EARLIER])
def test_a_run_json_fits_its_schema_and_one_with_a_mistake_does_not(run: dict[str, Any]):
    config = run_config_from_json(run["run"])
    schema = run_schema(type(config))
    jsonschema.validate(config.to_json(), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(config.to_json() | {"seed": -1}, schema)


@pytest.mark.parametrize("algorithm", TRAINING_CONFIGS)
def test_a_launch_has_all_settings_but_those_that_only_retrace_writes(algorithm: str):
    cls = TRAINING_CONFIGS[algorithm]
    schema = launch_schema(cls)
    for field in fields_of(cls):
        assert has(schema, field.path) == (not field.internal), field.path
    assert "$ref" not in json.dumps(schema)


def has(schema: dict[str, Any], path: str) -> bool:
    name, _, rest = path.partition(".")
    within = schema.get("properties", {}).get(name)
    return within is not None and (not rest or has(within, rest))
