"""JSON Schemas of configs: of a complete run.json for the docs, and of the settings of a launch for REST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contract.configs.declaration import Config
from contract.configs.training import TrainingConfig

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def run_schema(cls: type[Config]) -> dict[str, Any]:
    """Of run.json."""
    return {"$schema": DRAFT, **cls.model_json_schema()}


def launch_schema(cls: type[TrainingConfig]) -> dict[str, Any]:
    """Schema of the settings that people can change, all optional, in OpenAPI 3.0's dialect without `$ref`."""
    full_schema = cls.model_json_schema()
    schema = for_openapi(full_schema)
    for name in (cls.tag, "data"):
        schema["properties"].pop(name, None)
    schema.pop("required", None)
    return schema


def for_openapi(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema in OpenAPI 3.0's dialect, without `$ref` and without settings that people can't change."""
    inlined: dict[str, Any] = _inlined(schema, schema.get("$defs", {}))
    return inlined


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return _inlined({**target, **{name: value for name, value in node.items() if name != "$ref"}}, definitions)
    plain = {name: value for name, value in node.items() if name not in ("$schema", "$defs", "discriminator", "const")}
    if "const" in node:
        plain["enum"] = [node["const"]]
    if "exclusiveMinimum" in plain:
        plain |= {"minimum": plain.pop("exclusiveMinimum"), "exclusiveMinimum": True}
    if {"type": "null"} in plain.get("anyOf", ()):
        (rest,) = [alternative for alternative in plain.pop("anyOf") if alternative != {"type": "null"}]
        return _inlined({**rest, **plain, "nullable": True}, definitions)
    if "properties" in plain:
        settable = {name: value for name, value in plain["properties"].items() if "x-internal" not in value}
        plain["properties"] = {name: _inlined(value, definitions) for name, value in settable.items()}
        required = [name for name in plain.pop("required", ()) if name in settable]
        if required:
            plain["required"] = required
        return {name: value if name == "properties" else _inlined(value, definitions) for name, value in plain.items()}
    return {name: _inlined(value, definitions) for name, value in plain.items()}
