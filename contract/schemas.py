"""The contract's JSON Schemas and tables of fields in the docs. `python -m contract` writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from contract.configs import RUN_CONFIGS
from contract.configs.schema import DRAFT, for_openapi, run_schema
from contract.events import EVENT_OF_KIND, Event
from contract.questions import Question
from contract.rows import ROWS
from contract.trajectory import Trajectory

DOCS = Path(__file__).resolve().parents[1] / "docs"
MARKED = re.compile(r"(<!-- fields: ([\w-]+) -->\n).*?(<!-- /fields -->)", re.DOTALL)
"""Marker in a docs page for the tables of a schema."""


def schemas() -> dict[str, dict[str, Any]]:
    """Schemas by file name in docs/schemas/."""
    return {
        **{f"run-{kind}": run_schema(cls) for kind, cls in RUN_CONFIGS.items()},
        "trajectory": described(Trajectory),
        "question": {**described(Question), "required": ["name"]},
        "event": {
            "$schema": DRAFT,
            "title": "Line of events.jsonl",
            "oneOf": [_event(cls) for cls in EVENT_OF_KIND.values()],
        },
        **{f"rows-{name}": {**described(cls), "title": name} for name, cls in ROWS.items()},
    }


def questions_schema() -> dict[str, Any]:
    """Schema of a list of questions, for OpenAPI."""
    return {"type": "array", "items": for_openapi({**described(Question), "required": ["name"]})}


def row_schemas() -> list[dict[str, Any]]:
    """Schemas of the rows of each type, for OpenAPI."""
    return [for_openapi(schema) for name, schema in schemas().items() if name.startswith("rows-")]


def described(cls: type) -> dict[str, Any]:
    """The JSON Schema of a dataclass."""
    return {"$schema": DRAFT, **TypeAdapter(cls).json_schema()}


def _event(cls: type[Event]) -> dict[str, Any]:
    schema = TypeAdapter(cls).json_schema()
    stamp = {
        "seq": {"type": "integer", "minimum": 1},
        "at": {"type": "number", "description": "Seconds since 1970, UTC."},
        "kind": {"const": cls.kind},
    }
    return {
        **schema,
        "properties": {**stamp, **schema.get("properties", {})},
        "required": [*stamp, *schema.get("required", ())],
    }


def with_tables(page: str) -> str:
    """A docs page with its tables regenerated."""
    schemas_by_name = schemas()
    return MARKED.sub(lambda match: f"{match[1]}\n{tables(schemas_by_name[match[2]])}\n\n{match[3]}", page)


def tables(schema: dict[str, Any]) -> str:
    """The fields of a schema, and of each object within it, in Markdown."""
    parts = [schema, *schema.get("$defs", {}).values()]
    return "\n\n".join(
        "\n".join(
            [f"**{part['title']}**: {part['description']}", "", "| field | holds | |", "|---|---|---|", *_rows(part)]
        )
        for part in parts
    )


def _rows(part: dict[str, Any]) -> Iterator[str]:
    required = part.get("required", ())
    for name, schema in part["properties"].items():
        description = schema.get("description", "") + ("" if name not in required else " Required.")
        yield f"| `{name}` | {_type(schema)} | {description.strip()} |"


def _type(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2].lower()
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_plural(_type(schema.get('items', {})))}"
    kind = str(schema.get("type", "any JSON"))
    return {"string": "text", "boolean": "true or false", "integer": "whole number"}.get(kind, kind)


def _plural(noun: str) -> str:
    return noun if noun in ("text", "any JSON", "true or false") or " " in noun else f"{noun}s"


def main() -> None:
    folder = DOCS / "schemas"
    folder.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    for page in DOCS.glob("*.md"):
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
