"""The client covers every operation of the server's OpenAPI description, with the same fields.

Each method is called with a value for every parameter, and its request is compared with the description.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from django.core.management import call_command
from pydantic import BaseModel
from retrace import Client
from retrace.core.operations import Listing, Resource, listing, operation
from retrace.core.request import IDEMPOTENCY_KEY, Request

NOT_COVERED: dict[str, str] = {}
"""Operations that the client doesn't cover, by id, with reasons."""

BESIDE = {
    "import_": "imports_create",  # takes a file or rows; tested against the server in test_imports.py
    "export": "versions_rows",  # streams into a file; see test_export.py
    "load": "versions_rows",
    "push": "versions_rows",
    "export_workspace": "exports_archive",  # asks, waits, and streams into a file; see test_workspaces.py
    "import_workspace": "workspace_imports_create",
    "wait": "reads what it waits for",
}
"""The client's own methods, which make several requests."""


KNOWN_AGAIN = {
    "/api/v1/queues/{queue_id}/next": "whoever asks again is given the item in hand",
}
"""Operations that are idempotent without the header, and the reason."""


class Sent(NamedTuple):
    method: str
    path: str
    query: frozenset[str]
    body: frozenset[str]
    is_keyed: bool
    may_be_repeated: bool


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    out = StringIO()
    call_command("spectacular", "--format", "openapi-json", api_version="v1", stdout=out)
    return dict(json.loads(out.getvalue()))


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, verbs in schema["paths"].items():
        for verb, described in verbs.items():
            yield verb.upper(), path, described


def methods() -> Iterator[tuple[str, Resource[Any], operation[Any, Any] | listing[Any, Any]]]:
    with Client("http://retrace.invalid", "rt_none") as client:
        resources = {name: it for name, it in vars(client).items() if isinstance(it, Resource)}
    for name, resource in resources.items():
        for attribute, method in vars(type(resource)).items():
            if isinstance(method, operation | listing):
                yield f"{name}.{attribute}", resource, method


def body_type(method: Callable[..., Any]) -> Any:
    """The TypedDict of its keyword arguments, if any."""
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            [keywords] = get_args(get_type_hints(method)[name])
            return keywords
    return None


def sent(resource: Resource[Any], method: operation[Any, Any] | listing[Any, Any]) -> Sent:
    function = method.flow if isinstance(method, operation) else method.first
    positional, keywords = [], {}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            positional.append(f"~{name}~")
        elif parameter.kind is parameter.KEYWORD_ONLY:
            keywords[name] = "value"
    typed = body_type(function)
    keywords |= dict.fromkeys(typed.__annotations__ if typed else {}, "value")
    first = function(resource, *positional, **keywords)
    request = Request("GET", first.path, first.query) if isinstance(first, Listing) else next(first).request
    names = frozenset(request.query) | ({"cursor"} if isinstance(first, Listing) else set())
    path = "/api/v1" + re.sub(r"~(\w+)~", r"{\1}", request.path)
    is_keyed = IDEMPOTENCY_KEY in request.headers
    body = frozenset(request.body or {})
    return Sent(request.method, path, frozenset(names), body, is_keyed, request.may_be_repeated)


def requests() -> list[Sent]:
    return [sent(resource, method) for _, resource, method in methods()]


def test_every_operation_has_a_method(schema: dict[str, Any]) -> None:
    there = {described["operationId"]: (verb, path) for verb, path, described in operations(schema)}
    covered = {(it.method, it.path) for it in requests()} | {there[it] for it in BESIDE.values() if it in there}
    missing = {name for name, place in there.items() if place not in covered}
    assert missing == set(NOT_COVERED), "give each a method in client/src/retrace/resources, or a reason in NOT_COVERED"
    assert covered <= set(there.values()), "the server has no such operations"


def test_methods_of_the_client_itself_are_named_here() -> None:
    own = {name for kind in Client.__mro__ for name, it in vars(kind).items() if isinstance(it, operation)}
    assert own == set(BESIDE)


def test_every_method_says_what_it_does() -> None:
    assert [name for name, _, method in methods() if not (method.__doc__ or "").strip()] == []


def test_every_parameter_and_every_field_of_a_request_can_be_sent(schema: dict[str, Any]) -> None:
    for it in requests():
        described = schema["paths"][it.path][it.method.lower()]
        parameters = {parameter["name"] for parameter in described.get("parameters", []) if parameter["in"] == "query"}
        if it.path.endswith("/card"):  # one operation, two methods: JSON, and Markdown as `readme`
            assert it.query <= parameters
        else:
            assert it.query == parameters, it.path
        content = described.get("requestBody", {}).get("content", {}).get("application/json")
        assert it.body == (fields_of(schema, content["schema"]) if content else set()), it.path


def fields_of(schema: dict[str, Any], described: dict[str, Any]) -> set[str]:
    if "$ref" in described:
        described = schema["components"]["schemas"][described["$ref"].rsplit("/", 1)[1]]
    if "oneOf" in described:
        return set().union(*(fields_of(schema, option) for option in described["oneOf"]))
    return {name for name, it in described["properties"].items() if not it.get("readOnly")}


def test_all_that_the_server_remembers_is_sent_with_a_key_and_may_be_sent_twice(schema: dict[str, Any]) -> None:
    for it in requests():
        parameters = schema["paths"][it.path][it.method.lower()].get("parameters", [])
        remembers = any(
            parameter["in"] == "header" and parameter["name"] == IDEMPOTENCY_KEY for parameter in parameters
        )
        assert it.is_keyed >= remembers, it.path
        assert it.may_be_repeated == (it.method == "GET" or it.path in KNOWN_AGAIN or remembers), it.path


def answers() -> Iterator[tuple[str, str, type[BaseModel]]]:
    """Each method's operation in the description, and the model of its response or of one list entry."""
    for _, resource, method in methods():
        function = method.flow if isinstance(method, operation) else method.first
        result = get_args(get_type_hints(function)["return"])[-1]
        for model in (result, *get_args(result)):
            if isinstance(model, type) and issubclass(model, BaseModel):
                it = sent(resource, method)
                yield it.method.lower(), it.path, model


def models_in(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for part in parts_of(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from models_in(part)


def parts_of(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation) if get_origin(annotation) else ():
        yield from parts_of(part)


def test_models_have_the_fields_of_the_answers(schema: dict[str, Any]) -> None:
    seen = 0
    for verb, path, model in answers():
        described = next(
            content["application/json"]["schema"]
            for status, answer in schema["paths"][path][verb]["responses"].items()
            if status.startswith("2") and (content := answer.get("content"))
        )
        check_against(schema, described, model, f"{verb} {path}")
        seen += 1
    assert seen > 50


def check_against(schema: dict[str, Any], described: dict[str, Any], model: type[BaseModel], place: str) -> None:
    if "$ref" in described:
        described = schema["components"]["schemas"][described["$ref"].rsplit("/", 1)[1]]
    if described.get("type") == "array":
        return check_against(schema, described["items"], model, place)
    properties = described["properties"]
    if set(properties) == {"next", "previous", "results"}:
        return check_against(schema, properties["results"]["items"], model, place)
    assert set(model.model_fields) <= set(properties), f"{place}: {model.__name__} has fields that the answer lacks"
    new = set(properties) - set(model.model_fields)
    assert not new, f"{place}: {model.__name__} lacks what the answer has; add it to client/src/retrace/models"
    return None


def test_requests_are_typed_dicts() -> None:
    kinds = [body_type(method.flow) for _, _, method in methods() if isinstance(method, operation)]
    assert all(is_typeddict(kind) for kind in kinds if kind is not None)
