"""Renders tool calls by what their arguments are: a command, an edit of a file, code, or names and values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apps.common.markup import Markup
from apps.common.nested_json import Arguments, arguments_of
from apps.trajectories.rendering import diffs
from apps.trajectories.rendering.blocks import Block, as_form, form_of_json, text_block
from apps.trajectories.rendering.forms import ContentLocation
from apps.trajectories.rendering.kinds import RUN, Kind, kind_of
from apps.trajectories.rendering.text import legible, one_line
from apps.trajectories.rendering.trees import json_scalar

COMMANDS = ("command", "cmd", "script", "keystrokes", "code", "python", "sql", "query", "input")
PATCHES = ("patch", "diff", "input")
EDITS = (
    ("old_str", "new_str"),
    ("old_string", "new_string"),
    ("search", "replace"),
    ("old_text", "new_text"),
    ("old", "new"),
)
PATHS = ("path", "file_path", "filepath", "file_name", "filename", "file")
FACT_CHARS = 200
MAX_SHORT_ARGUMENTS = 40


@dataclass(frozen=True)
class Fact:
    """A short argument, on a line of its own."""

    name: str
    value: str
    is_text: bool
    marked: Markup | None = None
    """The value with its differences from another trajectory marked; see `differences`."""


@dataclass(frozen=True)
class CallView:
    """One call and its results."""

    id: str
    tool: str
    kind: Kind
    blocks: list[Block]
    facts: list[Fact]
    problem: str
    encoded_twice: bool
    results: list[Block] = field(default_factory=list)
    failed: bool = False


def call_view(call: Any, url: str, number: int) -> CallView:
    """The view of a call; `number` is its position in the message."""
    name, raw_arguments, identifier = name_and_arguments(call)
    arguments = arguments_of(raw_arguments)
    kind = kind_of("tool", name)
    location = ContentLocation(url, f"call.{number}")
    blocks, facts = (
        _arguments_blocks(arguments, location, kind)
        if isinstance(arguments.value, dict)
        else ([_raw(arguments, location)], [])
    )
    return CallView(
        id=identifier,
        tool=one_line(name, 100) or "(no name)",
        kind=kind,
        blocks=blocks,
        facts=facts,
        problem=one_line(arguments.problem, 200),
        encoded_twice=arguments.encoded > 1,
    )


def earlier_call(call: Any, location: ContentLocation) -> Block:
    """A call of a turn before the trajectory, such as in a prompt: its arguments under the tool's name."""
    name, raw_arguments, _ = name_and_arguments(call)
    arguments = arguments_of(raw_arguments).value
    form = "text" if isinstance(arguments, str) else form_of_json(arguments, complete=True)
    return as_form(arguments, location, form, label=f"Called {one_line(name, 100) or '(no name)'}")


def name_and_arguments(call: Any) -> tuple[str, Any, str]:
    """The tool's name, its arguments as stored, and the call's id."""
    call = call if isinstance(call, dict) else {"function": {"name": "", "arguments": call}}
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    return str(function.get("name") or ""), function.get("arguments"), str(call.get("id") or "")


def part_of_call(call: Any, name: str) -> Any:
    """The content of `call.N` (all arguments, `name` ""), `call.N.edit`, or `call.N.K`, the K-th argument. Raises LookupError."""
    value = arguments_of(name_and_arguments(call)[1]).value
    if not name:
        return value
    if not isinstance(value, dict):
        raise LookupError(name)
    if name == "edit":
        edit = _edit_of(value)
        if edit is None:
            raise LookupError(name)
        return diffs.patch_between(value[edit.old], value[edit.new])
    return list(value.values())[int(name)]


def _arguments_blocks(arguments: Arguments, location: ContentLocation, kind: Kind) -> tuple[list[Block], list[Fact]]:
    value: dict[str, Any] = arguments.value
    names = list(value)
    blocks: list[Block] = []
    used: set[str] = set()
    edit = _edit_of(value)
    if edit is not None:
        path = next((name for name in PATHS if isinstance(value.get(name), str) and _is_short(value[name])), None)
        blocks.append(
            as_form(
                diffs.patch_between(value[edit.old], value[edit.new]),
                location._replace(at=f"{location.at}.edit"),
                "edit",
                label="" if path is None else one_line(value[path], FACT_CHARS),
            )
        )
        used |= {*edit} if path is None else {*edit, path}
    facts: list[Fact] = []
    for i, name in enumerate(names[:MAX_SHORT_ARGUMENTS]):
        argument = value[name]
        if name in used:
            continue
        at = location._replace(at=f"{location.at}.{i}")
        if isinstance(argument, str) and argument and name in PATCHES and diffs.looks_like_patch(argument):
            blocks.append(as_form(argument, at, "patch", label=one_line(name, 60)))
        elif isinstance(argument, str) and argument and _is_command(name, names, kind):
            blocks.insert(0, as_form(argument, at, "command"))
        elif _is_short(argument):
            facts.append(_fact(name, argument))
        elif isinstance(argument, str):
            blocks.append(_long(argument, at, name))
        else:
            form = form_of_json(argument, complete=True)
            blocks.append(as_form(argument, at, form, label=one_line(str(name), 60)))
    if len(names) > MAX_SHORT_ARGUMENTS:
        blocks.append(as_form(value, location, "tree", label=f"All {len(names):,} arguments"))
    return blocks, facts


def _is_command(name: str, names: list[str], kind: Kind) -> bool:
    """Whether an argument is the command being run: by its name, if the tool runs things or has few other arguments."""
    return name in COMMANDS and (kind == RUN or (name in ("command", "cmd", "code") and len(names) <= 3))


class _Edit(NamedTuple):
    """The names of the arguments with the old text and the new one."""

    old: str
    new: str


def _edit_of(value: dict[str, Any]) -> _Edit | None:
    for old, new in EDITS:
        if isinstance(value.get(old), str) and isinstance(value.get(new), str) and (value[old] or value[new]):
            return _Edit(old, new)
    return None


def _is_short(argument: Any) -> bool:
    if isinstance(argument, str):
        return len(argument) <= FACT_CHARS >= len(legible(argument)) and "\n" not in argument
    return not isinstance(argument, dict | list) or not argument


def _fact(name: str, argument: Any) -> Fact:
    if isinstance(argument, str):
        return Fact(one_line(str(name), 60), legible(argument), is_text=True)
    return Fact(one_line(str(name), 60), one_line(json_scalar(argument), FACT_CHARS), is_text=False)


def _long(argument: str, location: ContentLocation, name: str) -> Block:
    block = text_block(argument, location, argument=True)
    return Block(**{**block.__dict__, "label": one_line(str(name), 60)})


def _raw(arguments: Arguments, location: ContentLocation) -> Block:
    return as_form(arguments.value, location, "text" if isinstance(arguments.value, str) else "tree")
