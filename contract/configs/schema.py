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
        return [_inlined(each, definitions) for each in node]
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return _inlined({**target, **{name: each for name, each in node.items() if name != "$ref"}}, definitions)
    plain = {name: each for name, each in node.items() if name not in ("$schema", "$defs", "discriminator", "const")}
    if "const" in node:
        plain["enum"] = [node["const"]]
    if "exclusiveMinimum" in plain:
        plain |= {"minimum": plain.pop("exclusiveMinimum"), "exclusiveMinimum": True}
    if {"type": "null"} in plain.get("anyOf", ()):
        (rest,) = [each for each in plain.pop("anyOf") if each != {"type": "null"}]
        return _inlined({**rest, **plain, "nullable": True}, definitions)
    if "properties" in plain:
        settable = {name: each for name, each in plain["properties"].items() if "x-internal" not in each}
        plain["properties"] = {name: _inlined(each, definitions) for name, each in settable.items()}
        required = [name for name in plain.pop("required", ()) if name in settable]
        if required:
            plain["required"] = required
        return {name: each if name == "properties" else _inlined(each, definitions) for name, each in plain.items()}
    return {name: _inlined(each, definitions) for name, each in plain.items()}
