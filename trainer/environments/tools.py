"""Tools from Python methods: the JSON schema that a policy sees, and validation of its calls.

A tool is a method with plain type hints and a Google-style docstring (the form that transformers and TRL read too).
"""

import inspect
import json
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from contract.messages import Message, ToolSchema
from contract.values import JsonObject

JSON_TYPE = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


class ToolError(Exception):
    """A failed call. Its text is returned to the policy as the tool's result."""


class Answer(NamedTuple):
    """A tool message, and the error it reports, if any."""

    message: Message
    error: str | None


class Toolset:
    """The public methods of a class as tools that act on its instances, in the order of their definition."""

    def __init__(self, owner: type) -> None:
        members = {name: member for base in reversed(owner.__mro__) for name, member in vars(base).items()}
        self.functions: dict[str, Callable[..., Any]] = {
            name: member for name, member in members.items() if inspect.isfunction(member) and not name.startswith("_")
        }
        self.schemas: list[ToolSchema] = [schema_of(function) for function in self.functions.values()]
        self._schema_of = dict(zip(self.functions, self.schemas, strict=True))

    def answer(self, instance: object, tool_call: JsonObject) -> Answer:
        """Execute one tool call. Text results are returned unchanged, other results and errors as JSON."""
        error = None
        try:
            result = self.call(instance, tool_call.get("function") or {})
            content = result if isinstance(result, str) else json.dumps(result)
        except ToolError as failed:
            error = str(failed)
            content = json.dumps({"error": error})
        return Answer({"role": "tool", "tool_call_id": tool_call.get("id", ""), "content": content}, error)

    def call(self, instance: object, function: JsonObject) -> Any:
        """What the tool returns. Raises ToolError."""
        name = function.get("name")
        if not isinstance(name, str) or name not in self.functions:
            raise ToolError(f"there is no tool {name!r}")
        return self.functions[name](instance, **checked_arguments(self._schema_of[name], function.get("arguments")))


def schema_of(function: Callable[..., Any]) -> ToolSchema:
    """The OpenAI function schema of a method. Raises ValueError if its type hints or docstring are incomplete."""
    hints = get_type_hints(function)
    summary, descriptions = read_docstring(function)
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if name not in descriptions:
            raise ValueError(f"{function.__qualname__}: the docstring does not describe {name!r} under 'Args:'.")
        properties[name] = {**type_schema(hints[name]), "description": descriptions[name]}
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": function.__name__, "description": summary, "parameters": parameters},
    }


def type_schema(hint: Any) -> dict[str, Any]:
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        return {"type": "array", "items": {} if item is Any else type_schema(item)}
    return {"type": JSON_TYPE[hint]}


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph, and the description of each argument."""
    text = inspect.getdoc(function) or ""
    summary, _, rest = text.partition("\n\n")
    if not summary:
        raise ValueError(f"{function.__qualname__} has no docstring; policies need one.")
    arguments = rest.partition("Args:\n")[2].partition("\n\n")[0]
    pairs = (line.strip().partition(":") for line in arguments.splitlines() if ":" in line)
    return " ".join(summary.split()), {name.strip(): description.strip() for name, _, description in pairs}


def checked_arguments(schema: ToolSchema, arguments: Any) -> dict[str, Any]:
    """Validate arguments against the schema. Raises ToolError with what was given and expected."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            raise ToolError(f"the arguments are no JSON: {arguments[:100]}") from None
    if not isinstance(arguments, dict):
        raise ToolError("the arguments must be a JSON object")
    parameters = schema["function"]["parameters"]
    properties = parameters["properties"]
    if unknown := sorted(arguments.keys() - properties.keys()):
        raise ToolError(f"unknown argument {comma(unknown)}; known are {comma(properties)}")
    if missing := [name for name in parameters["required"] if name not in arguments]:
        raise ToolError(f"missing argument {comma(missing)}")
    for name, value in arguments.items():
        check_value(name, value, properties[name])
    return arguments


def check_value(name: str, value: object, expected: dict[str, Any]) -> None:
    python_type = next(key for key, json_name in JSON_TYPE.items() if json_name == expected["type"])
    fits = isinstance(value, python_type) and not (isinstance(value, bool) and python_type is not bool)
    if python_type is float and isinstance(value, int) and not isinstance(value, bool):
        fits = True
    if not fits:
        raise ToolError(f"{name} must be of type {expected['type']}, got {json.dumps(value)[:60]}")
    if "enum" in expected and value not in expected["enum"]:
        raise ToolError(f"{name} must be one of {comma(expected['enum'])}, got {json.dumps(value)[:60]}")
    if expected.get("items") and isinstance(value, list):
        for index, item in enumerate(value):
            check_value(f"{name}[{index}]", item, expected["items"])


def comma(names: Iterable[str]) -> str:
    return ", ".join(names)
