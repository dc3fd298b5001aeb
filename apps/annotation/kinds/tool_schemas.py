"""Validates arguments against a tool's schema, which may be malicious.

Schemas come from trajectories. References to other documents aren't fetched. Patterns, which can take exponential time to match, are ignored, along with
keywords that use them. Each evaluated keyword counts against a budget, since a schema of a thousand bytes can refer to itself a billion times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

Json = Any
Keyword = Callable[[Validator, Json, Json, Json], Iterator[ValidationError] | None]

MAX_KEYWORDS = 10_000
"""Budget of evaluated keywords for all arguments of one answer, about a second's work; a list costs as many as it has entries."""
UNTRIED = (
    "pattern",
    "patternProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "uniqueItems",
    "dependentSchemas",
)
"""Ignored keywords: all but the last match patterns, or compare all pairs of values, within one keyword."""


class _BudgetExceeded(Exception):
    """The schema exceeds the budget."""


@dataclass
class _Budget:
    left: int = MAX_KEYWORDS
    schemas: dict[int, bool] = field(default_factory=dict)
    """Whether the schema with this object id is valid. Cached, since many answers use the same tools."""


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget() -> Iterator[_Budget]:
    """Everything validated inside, including nested budgets, shares MAX_KEYWORDS keywords. The schemas must outlive it, since they're cached by id."""
    if (outer := _budget.get()) is not None:
        yield outer
        return
    token = _budget.set(new_budget := _Budget())
    try:
        yield new_budget
    finally:
        _budget.reset(token)


def problems(schema: Json, arguments: Json) -> list[ValidationError]:
    """The arguments' violations of the schema, by place. Invalid schemas, and schemas that exceed the budget, refuse nothing."""
    if not isinstance(schema, dict):
        return []
    with budget() as own_budget:
        try:
            if id(schema) not in own_budget.schemas:
                schema_error = next(_Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema), None)
                own_budget.schemas[id(schema)] = schema_error is None
            if not own_budget.schemas[id(schema)]:
                return []
            return sorted(
                _Validator(schema, registry=Registry()).iter_errors(arguments),
                key=lambda error: [str(part) for part in error.absolute_path],
            )
        except (SchemaError, Unresolvable, RecursionError, TypeError, _BudgetExceeded):
            return []


def _counted(keyword: Keyword) -> Keyword:
    def look(validator: Validator, value: Json, instance: Json, schema: Json) -> Iterator[ValidationError]:
        with budget() as own_budget:
            own_budget.left -= 1 + (len(value) if isinstance(value, list | dict) else 0)
        if own_budget.left < 0:
            raise _BudgetExceeded
        yield from keyword(validator, value, instance, schema) or ()

    return look


def _untried(*_: Json) -> None:
    return None


def _additional(validator: Validator, value: Json, instance: Json, schema: Json) -> Iterator[ValidationError] | None:
    return None if "patternProperties" in schema else _known["additionalProperties"](validator, value, instance, schema)


_known: dict[str, Keyword] = dict(Draft202012Validator.VALIDATORS)
_kept = {**_known, **dict.fromkeys(UNTRIED, _untried), "additionalProperties": _additional}
_Validator = validators.extend(Draft202012Validator, {name: _counted(keyword) for name, keyword in _kept.items()})
