"""Finds rows that belong to others by foreign keys, to count them or delete them as well.

Uses subqueries, so no rows are loaded into memory, however many there are. New models are found automatically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from django.db.models import SET_NULL, ForeignObjectRel, Model, QuerySet

Rows = QuerySet[Any]


class Rests(Exception):
    """Rows that may not be deleted refer to those that should."""

    def __init__(self, model: type[Model]) -> None:
        super().__init__(f"A {model._meta.verbose_name} refers to it.")


class Relation(NamedTuple):
    """A foreign key of another model."""

    model: type[Model]
    field: str
    is_emptied: bool
    """The foreign key is set to null instead of deleting its rows."""


def relations_to(model: type[Model]) -> Iterator[Relation]:
    """The foreign keys that refer to a model."""
    for relation in model._meta.get_fields(include_hidden=True):
        if isinstance(relation, ForeignObjectRel) and not relation.many_to_many:
            on_delete: Any = relation.on_delete
            yield Relation(relation.related_model, relation.field.name, on_delete is SET_NULL)


def count(rows: Rows, *, spared: frozenset[type[Model]]) -> dict[type[Model], int]:
    """How many rows of each model `delete` would delete, in order of dependency."""
    counts: dict[type[Model], int] = {}

    def note(dependents: Rows) -> None:
        number = dependents.count()  # two paths may lead to the same rows
        counts[dependents.model] = max(counts.get(dependents.model, 0), number)

    note(rows)
    _visit_dependents(rows, spared, note, lambda dependents, field: None)
    return {model: number for model, number in counts.items() if number and not model._meta.auto_created}


def delete(rows: Rows, *, spared: frozenset[type[Model]]) -> dict[type[Model], int]:
    """Delete rows with everything that belongs to them, in the caller's transaction; returns counts by model. Raises Rests.

    spared: models whose rows are never deleted as dependents.
    """
    counts: dict[type[Model], int] = {}

    def remove(dependents: Rows) -> None:
        raw: Any = dependents.order_by()
        counts[dependents.model] = counts.get(dependents.model, 0) + (raw._raw_delete(raw.db) or 0)

    def empty(dependents: Rows, field: str) -> None:
        dependents.update(**{field: None})

    _visit_dependents(rows, spared, remove, empty)
    remove(rows)
    return {model: number for model, number in counts.items() if number and not model._meta.auto_created}


def _visit_dependents(
    rows: Rows, spared: frozenset[type[Model]], visit: Callable[[Rows], None], empty: Callable[[Rows, str], None]
) -> None:
    """Visit dependent rows, deepest first."""
    for model, field, is_emptied in relations_to(rows.model):
        dependents = model._base_manager.filter(**{f"{field}__in": rows.order_by().values("pk")})
        if is_emptied:
            empty(dependents, field)
        elif model in spared:
            if dependents.exists():
                raise Rests(model)
        elif model is not rows.model:  # a tree of rows is deleted as a whole: deferred keys are checked on commit
            _visit_dependents(dependents, spared, visit, empty)
            visit(dependents)
