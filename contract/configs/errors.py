"""Validation errors of a config as sentences: the field's path, what was given, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from contract.configs.hints import is_list, item_of, members_of, range_of

if TYPE_CHECKING:
    from contract.configs.declaration import Config

NAMES = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
}
MAX_PROBLEMS = 50
"""Most mistakes reported. Formatting each takes a millisecond, and nobody reads more."""
LIMITS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")


class InvalidField(ValueError):
    """One field is wrong. `field` is its dotted path from the top of the file."""

    def __init__(self, field: str, problem: str, *, advice: str = "") -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem
        self.advice = advice

    @property
    def message(self) -> str:
        """The problem as a sentence, for use where the field is already named."""
        sentence = f"{self.problem[:1].upper()}{self.problem[1:]}".rstrip(".") + "."
        return f"{sentence} {self.advice}".strip()


class InvalidConfig(ValueError):
    """What is wrong with a config: every mistake at once."""

    def __init__(self, problems: Sequence[InvalidField]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.message)

    @property
    def message(self) -> str:
        return "; ".join(str(problem) for problem in self.problems)

    @property
    def advice(self) -> str:
        return " ".join(dict.fromkeys(problem.advice for problem in self.problems if problem.advice))


def refused(problem: str, *, field: str = "", advice: str = "") -> InvalidConfig:
    """An error with a single mistake."""
    return InvalidConfig([InvalidField(field, problem, advice=advice)])


def translated(error: ValidationError, cls: type[Config]) -> InvalidConfig:
    """pydantic's errors about a `cls` as our sentences; only the first ones if there are very many."""
    errors = error.errors(include_url=False)
    problems = [_translated(error, cls) for error in errors[:MAX_PROBLEMS]]
    if remaining := len(errors) - len(problems):
        problems.append(InvalidField("", f"and {remaining:,} more mistakes"))
    return InvalidConfig(problems)


def _translated(error: Any, cls: type[Config]) -> InvalidField:
    kind, value = error["type"], error["input"]
    path, owner, hint = located(cls, error["loc"])
    context = error.get("ctx", {})
    if kind == "value_error" and isinstance(error_field := context.get("error"), InvalidField):
        return InvalidField(joined(path, error_field.field), error_field.problem, advice=error_field.advice)
    if kind == "missing":
        return InvalidField(path, "missing", advice=f"Add {path.rpartition('.')[2]!r}.")
    if kind == "extra_forbidden":
        model_fields = owner.model_fields
        close = get_close_matches(str(error["loc"][-1]), model_fields, n=1)
        return InvalidField(
            path,
            "unknown field",
            advice=f"Did you mean {close[0]!r}?" if close else f"Known fields: {', '.join(model_fields)}.",
        )
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        members = members_of(hint)
        tag = members[0].tag
        if not isinstance(value, dict):
            return InvalidField(path, f"got {shown(value)}, expected an object with {tag!r}")
        return InvalidField(
            joined(path, tag), f"got {shown(value.get(tag))}, expected {alternatives(map(tag_of, members))}"
        )
    if kind == "literal_error":
        return InvalidField(path, f"got {shown(value)}, expected {alternatives(get_args(hint))}")
    if kind in LIMITS:
        return InvalidField(path, f"got {short(value)}, expected {range_of(owner.model_fields[error['loc'][-1]])}")
    if kind in ("model_type", "model_attributes_type"):
        members = members_of(hint) or (cls,)
        names = repr(members[0].tag) if len(members) > 1 else ", ".join(members[0].model_fields)
        return InvalidField(path, f"got {shown(value)}, expected an object with {names}")
    if kind == "too_long":
        return InvalidField(path, f"got {len(value):,}, expected at most {context['max_length']}")
    if kind in NAMES:
        return InvalidField(path, f"got {shown(value)}, expected {NAMES[kind]}")
    return InvalidField(path, f"got {shown(value)}: {error['msg']}")


def located(cls: type[Config], location: tuple[int | str, ...]) -> tuple[str, type[Config], Any]:
    """The dotted path of pydantic's location, the class that owns its last field, and that field's type."""
    path, owner, hint = "", cls, Any
    current: Any = cls
    for part in location:
        members = members_of(current)
        if is_list(current):
            path, current = f"{path}[{part}]", item_of(current)
        elif len(members) > 1:  # pydantic includes the union member here; our path doesn't
            current = next((member for member in members if tag_of(member) == part), current)
        elif members:
            owner = members[0]
            path = joined(path, str(part))
            field = owner.model_fields.get(str(part))
            current = field.annotation if field else None
        hint = current
    return path, owner, hint


def tag_of(member: type[Config]) -> str:
    """The discriminator value of a union member."""
    tag: str = get_args(member.model_fields[member.tag].annotation)[0]
    return tag


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def shown(value: object) -> str:
    if value is None:
        return "nothing"
    return f"{short(value)} ({type(value).__name__})"


def short(value: object) -> str:
    if isinstance(value, int) and abs(value).bit_length() > 64:  # Python refuses to format longer ones
        return f"a number of about {round(abs(value).bit_length() * 0.30103):,} digits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def alternatives(names: Iterable[object]) -> str:
    return " or ".join(repr(name) for name in names)
