"""Corrections: the form for a tool call, validation of a written action against the tools, and sampled actions.

Schemas come from trajectories, so they're untrusted (`tool_schemas`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jsonschema.exceptions import ValidationError

from apps.annotation.kinds import tool_schemas
from apps.annotation.kinds.answers import CorrectedAction
from apps.annotation.models import Continuation
from apps.annotation.refusals import BadAction
from apps.jobs.models import JobState
from apps.trajectories.models import Step, Trajectory
from contract import jsontext

LONG_TEXT = 60
"""Text longer than this is edited in a multiline box."""
MAX_CORRECTIONS = 500
"""Maximum per answer: each becomes a row that repeats all steps before it, and is validated against the tools."""
PROBLEMS = 5
REST = "arguments"
"""The field for arguments without a field of their own, if there's no schema."""
Json = Any


@dataclass(frozen=True)
class Tool:
    """A tool that the policy could call. Without `parameters`, nothing is known about its arguments."""

    name: str
    description: str = ""
    parameters: Json = None

    @property
    def properties(self) -> dict[str, Json]:
        schemas = self.parameters.get("properties") if isinstance(self.parameters, dict) else None
        return schemas if isinstance(schemas, dict) else {}

    @property
    def required(self) -> list[str]:
        names = self.parameters.get("required") if isinstance(self.parameters, dict) else None
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


@dataclass(frozen=True)
class ArgumentField:
    """The form field of one argument: kind is text, long, number, boolean, choice, or json."""

    name: str
    kind: str
    required: bool
    description: str
    value: str
    choices: tuple[tuple[str, str], ...] = ()
    """Options of a choice: (JSON, label)."""
    label: str = ""
    """Set if the field isn't a single argument with a name of its own."""


def tools_of(recorded: Sequence[Json], message: Json = None) -> list[Tool]:
    """The tools that a trajectory was given and, if there are no schemas, any others that `message` calls."""
    tools: dict[str, Tool] = {}
    for entry in recorded:
        function = entry.get("function", entry) if isinstance(entry, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            name = function["name"]
            tools[name] = Tool(name, str(function.get("description") or ""), function.get("parameters"))
    for name, _ in calls_of(message):
        tools.setdefault(name, Tool(name))
    return list(tools.values())


def calls_of(message: Json) -> list[tuple[str, Json]]:
    """The tool calls of a message: names with arguments, decoded if they're JSON."""
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    result = []
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            result.append((function["name"], _decoded(function.get("arguments"))))
    return result


def fields_of(tool: Tool, arguments: Json) -> list[ArgumentField]:
    """A field for each argument of the tool, filled from `arguments`; without a schema, for each argument that was given."""
    values = arguments if isinstance(arguments, dict) else {}
    if not tool.properties:
        return _fields_without_schema(arguments, values)
    return [_field(tool, name, schema, values.get(name)) for name, schema in tool.properties.items()]


def _fields_without_schema(arguments: Json, values: dict[str, Json]) -> list[ArgumentField]:
    """Strings get text fields, since multiline commands are tedious to write inside JSON; everything else is one JSON field."""
    if not values or REST in values or not all(isinstance(value, str) for value in values.values()):
        text = json.dumps(arguments, ensure_ascii=False, indent=2) if arguments is not None else "{}"
        return [ArgumentField(REST, "json", True, "All of them, as JSON.", text)]
    fields = [ArgumentField(name, "long", False, "", value) for name, value in values.items()]
    return [
        *fields,
        ArgumentField(REST, "json", False, "Other arguments of the tool, as JSON.", "", label="Further arguments"),
    ]


def _field(tool: Tool, name: str, schema: Json, value: Json) -> ArgumentField:
    schema = schema if isinstance(schema, dict) else {}
    kind = _kind(schema, value)
    choices: tuple[tuple[str, str], ...] = ()
    if kind == "choice":
        choices = tuple(
            (json.dumps(option), option if isinstance(option, str) else json.dumps(option)) for option in schema["enum"]
        )
    shown = "" if value is None else value if kind in ("text", "long") else json.dumps(value, ensure_ascii=False)
    return ArgumentField(name, kind, name in tool.required, str(schema.get("description") or ""), shown, choices)


def _kind(schema: dict[str, Json], value: Json) -> str:
    if isinstance(schema.get("enum"), list):
        return "choice"
    of_type = schema.get("type")
    if isinstance(of_type, list):
        of_type = next((type_name for type_name in of_type if type_name != "null"), None)
    if of_type == "string" and (value is None or isinstance(value, str)):
        return "long" if value and (len(value) > LONG_TEXT or "\n" in value) else "text"
    return {"integer": "number", "number": "number", "boolean": "boolean"}.get(str(of_type), "json")


def read_call(tool: Tool, values: Mapping[str, str]) -> dict[str, Json]:
    """The arguments of a submitted form; empty optional ones are left out. Raises BadAction."""
    if not tool.properties:
        arguments = _json(values.get(REST, "") or "{}", "The arguments")
        if not isinstance(arguments, dict):
            raise BadAction('The arguments must be a JSON object, such as {"city": "Oslo"}.')
        arguments |= {name: text for name, text in values.items() if text and name != REST}
    else:
        arguments = {}
        for field in fields_of(tool, None):
            text = values.get(field.name, "")
            if text or (field.required and field.kind == "text"):
                arguments[field.name] = text if field.kind == "text" else _json(text, field.name)
    check_arguments(tool, arguments)
    return arguments


def check_action(message: Json, tools: Sequence[Tool]) -> None:
    """Raises BadAction, with what was given and expected, for a message that the policy couldn't have sent."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        raise BadAction("A correction is a message of the assistant.")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise BadAction("The tool calls of a correction are a list.")
    if not calls and not (isinstance(message.get("content"), str) and message["content"].strip()):
        raise BadAction("Say something, or call a tool.")
    read_calls = calls_of(message)
    if len(read_calls) != len(calls):
        raise BadAction("A tool call needs a name and arguments.")
    tools_by_name = {tool.name: tool for tool in tools}
    for name, arguments in read_calls:
        if name not in tools_by_name:
            raise BadAction(
                f"There is no tool {name!r} in this trajectory; there are {', '.join(tools_by_name) or 'none'}."
            )
        check_arguments(tools_by_name[name], arguments)


def check_arguments(tool: Tool, arguments: Json) -> None:
    """Raises BadAction for arguments that the tool's schema refuses. An invalid schema refuses nothing."""
    if problems := tool_schemas.problems(tool.parameters, arguments):
        raise BadAction(" ".join(map(_error_text, problems[:PROBLEMS])))


def _error_text(error: ValidationError) -> str:
    location = ".".join(map(str, error.absolute_path))
    return f"{location}: {error.message[:300]}." if location else f"{error.message[:300]}."


def _json(text: str, name: str) -> Json:
    """Strict JSON: refuses Python's extensions, such as NaN and 1e999, which browsers can't parse."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        raise BadAction(f"{name}: {text[:100]!r} isn't JSON.") from None
    return value


def _decoded(arguments: Json) -> Json:
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments


def sampled_by(trajectory: Trajectory, index: int, message: dict[str, Any]) -> UUID | None:
    """The policy that was sampled to produce exactly this action at this step."""
    sets = Continuation.objects.filter(trajectory=trajectory, index=index, state=JobState.DONE, action_hash="")
    samples = sets.only("policy", "messages")
    return next((sample.policy_id for sample in samples if message in sample.messages), None)


def branch_after(trajectory: Trajectory, index: int, message: dict[str, Any]) -> UUID | None:
    """The branch that continued from exactly this action at this step, if anybody requested it."""
    action_hash = hashlib.sha256(jsontext.canonical(message)).hexdigest()
    done = Continuation.objects.filter(trajectory=trajectory, index=index, action_hash=action_hash, state=JobState.DONE)
    return done.order_by("-pk").values_list("branch", flat=True).first()


def check_corrections(corrections: Sequence[CorrectedAction], trajectory: Trajectory) -> None:
    """Raises BadAction for a written action that the tools refuse, one marked as sampled that wasn't, or too many."""
    if len(corrections) > MAX_CORRECTIONS:
        raise BadAction(f"These are {len(corrections):,} corrections; an answer may have {MAX_CORRECTIONS} at most.")
    for action in corrections:
        if action.policy is not None and sampled_by(trajectory, action.index, action.message) != action.policy:
            raise BadAction(f"The action chosen at step {action.index + 1} isn't one of those sampled there.")
    written = {action.index: action.message for action in corrections if action.policy is None}
    before = Step.objects.filter(trajectory=trajectory, index__in=written).values_list("index", "message")
    with tool_schemas.budget():
        for index, message in before if written else ():
            check_action(written[index], tools_of(trajectory.tools, message))
