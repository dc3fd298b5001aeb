"""Makes many rows of every model: copies of the rows that a test has created, related to each other like their originals.

No model is named here, so new ones are covered.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from django.apps import apps
from django.db import DatabaseError, connection, models, transaction
from django.utils.timezone import now

from apps.accounts.models import Workspace
from apps.common.ids import new_id

FITTING: dict[str, dict[str, Any]] = {
    "Inspection": {"first_error": 0},
    "Adjudication": {"upheld": uuid4()},
    "StepLabel": {"index": 0, "value": -1},
    "Correction": {"index": 0, "policy": None, "message": {"content": "x"}},
    "VersionJudgment": {"rating": None, "split": "train"},
}
"""Values required by the constraints of a model."""


class Key(NamedTuple):
    """A row, identified by model and primary key."""

    model: type[models.Model]
    pk: Any


def our_models() -> list[type[models.Model]]:
    """Every model of the product with a table, including those that Django creates for many-to-many relations."""
    ours = [model for model in apps.get_models(include_auto_created=True) if model.__module__.startswith("apps.")]
    return [model for model in ours if model._meta.managed and not model._meta.proxy]


@contextmanager
def unguarded() -> Iterator[None]:
    """Disables the database's triggers, some of which keep frozen versions from growing."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield
        cursor.execute("SET LOCAL session_replication_role = origin")


def make_one(model: type[models.Model]) -> None:
    """Create a row of a model that has none yet, from whatever exists."""
    if model._default_manager.exists():
        return
    fields: dict[str, Any] = {}
    for field in model._meta.concrete_fields:
        if not field.is_relation and (field.has_default() or field.has_db_default() or field.null or field.primary_key):
            continue
        if field.is_relation:
            fields[field.name] = field.related_model._default_manager.first()
        elif isinstance(field, models.UUIDField):
            fields[field.name] = uuid4()
        elif isinstance(field, models.DateTimeField):
            fields[field.name] = now()
        elif isinstance(field, models.JSONField):
            fields[field.name] = {}
        elif field.choices:
            fields[field.name] = field.choices[0][0]
        elif isinstance(field, models.CharField | models.TextField):
            fields[field.name] = "x"
        else:
            fields[field.name] = 1
    fields |= FITTING.get(model.__name__, {})
    try:
        with transaction.atomic():
            model._default_manager.create(**fields)
    except (DatabaseError, TypeError, ValueError):
        return


def copy_everything(times: int) -> None:
    """Give every row `times` copies, along with `times` copies of whatever refers to it.

    A workspace gets copies of everything in it; a queue also gets copies of its items with everything that depends on them;
    an item gets copies of its judgments, by copies of their annotators. So every list of the product has grown.
    """
    originals = Originals()
    ancestors = {key: originals.ancestors(key) for key in originals.rows}
    everything = set(originals.rows) - {key for key in originals.rows if key.model is Workspace}
    for _ in range(times):
        copied = originals.copy(everything, {})
        for holder in originals.rows:
            dependents = originals.dependents[holder]
            if holder.model is not Workspace and dependents:
                originals.copy(dependents, copied, fixed=ancestors[holder] | {holder})
    originals.save()


class Originals:
    """The original rows, the references to them, and the copies made so far."""

    def __init__(self) -> None:
        self.rows: dict[Key, models.Model] = {}
        for model in our_models():
            self.rows |= {Key(model, row.pk): row for row in model._base_manager.all()}
        self.refers = {key: dict(self._references(row)) for key, row in self.rows.items()}
        referring = defaultdict(set)
        for key, references in self.refers.items():
            for target in references.values():
                referring[target].add(key)
        self.dependents = {key: _closure(key, referring) for key in self.rows}
        self._order = {key: number for number, key in enumerate(self.rows)}
        self._numbers = count(10_000_000)
        self._copies: dict[type[models.Model], list[models.Model]] = defaultdict(list)
        self._taken: dict[tuple[type[models.Model], Unique], set[Any]] = defaultdict(set)
        for key, row in self.rows.items():
            for constraint in _uniques(key.model):
                self._taken[key.model, constraint].add(constraint.of(vars(row)))

    def ancestors(self, key: Key) -> set[Key]:
        return _closure(key, {row: set(references.values()) for row, references in self.refers.items()})

    def copy(self, keys: set[Key], others: dict[Key, Any], fixed: Iterable[Key] = ()) -> dict[Key, Any]:
        """Copy each row of `keys`; returns the copies' primary keys.

        References within `keys` point to the copies; those to `fixed` rows are unchanged; all others point to the copies in `others`.
        Rows that can exist only once for the `fixed` rows are left out, with everything that depends on them.
        """
        targets = others | {key: self._new_pk(key) for key in keys if not _is_keyed_by_others(key.model)}
        for key in fixed:
            targets.pop(key, None)
        single = {key for key in keys if self._can_be_only_one(key, targets)}
        left_out = single.union(*(self.dependents[key] for key in single)) if single else set()
        copied = keys - left_out
        for key in sorted(copied, key=self._order.__getitem__):
            self._copies[key.model].append(self._copy_of(key, targets))
        return {key: targets[key] for key in copied if key in targets}

    def save(self) -> None:
        """Insert the copies, with triggers disabled that would check for referenced rows."""
        for model, rows in self._copies.items():
            model._base_manager.bulk_create(rows, batch_size=1000)

    def _moved(self, key: Key, targets: dict[Key, Any]) -> dict[str, Any]:
        """The columns in which a copy refers to a different row than its original."""
        moved = {name: targets[target] for name, target in self.refers[key].items() if target in targets}
        if not _is_keyed_by_others(key.model):
            moved[key.model._meta.pk.attname] = targets[key]
        return moved

    def _can_be_only_one(self, key: Key, targets: dict[Key, Any]) -> bool:
        """Whether a row with these references exists already and couldn't be distinguished from another one."""
        values = self._values(key, targets)
        return any(
            set(constraint.columns) <= set(self.refers[key]) and self._is_taken(key.model, constraint, values)
            for constraint in _uniques(key.model)
        )

    def _values(self, key: Key, targets: dict[Key, Any]) -> dict[str, Any]:
        fields = key.model._meta.concrete_fields
        return {field.attname: getattr(self.rows[key], field.attname) for field in fields} | self._moved(key, targets)

    def _is_taken(self, model: type[models.Model], constraint: Unique, values: dict[str, Any]) -> bool:
        place = constraint.of(values)
        return place is not None and place in self._taken[model, constraint]

    def _copy_of(self, key: Key, targets: dict[Key, Any]) -> models.Model:
        values = self._values(key, targets)
        for constraint in _uniques(key.model):
            if self._is_taken(key.model, constraint, values):
                self._make_unique(key, constraint, values)
        for constraint in _uniques(key.model):
            self._taken[key.model, constraint].add(constraint.of(values))
        return key.model(**values)

    def _make_unique(self, key: Key, constraint: Unique, values: dict[str, Any]) -> None:
        """Change one value of columns that must be unique."""
        names = {field.attname: field for field in key.model._meta.concrete_fields}
        free = [names[name] for name in constraint.columns if name not in self.refers[key] and not names[name].choices]
        free = [field for field in free if values[field.attname] is not None]
        field = max(free, key=lambda candidate: not isinstance(candidate, models.IntegerField | models.FloatField))
        match values[field.attname]:
            case int() | float():
                while self._is_taken(key.model, constraint, values):
                    values[field.attname] += 1
            case UUID():
                values[field.attname] = new_id()
            case bytes() | memoryview() as value:
                values[field.attname] = os.urandom(len(value))
            case value:
                tail = f"-{next(self._numbers)}"
                values[field.attname] = f"{str(value)[: (field.max_length or 1000) - len(tail)]}{tail}"

    def _new_pk(self, key: Key) -> Any:
        return new_id() if isinstance(key.model._meta.pk, models.UUIDField) else next(self._numbers)

    def _references(self, row: models.Model) -> Iterator[tuple[str, Key]]:
        for field in row._meta.concrete_fields:
            if field.is_relation and (value := getattr(row, field.attname)) is not None:
                target = Key(field.related_model, value)
                if target in self.rows:
                    yield field.attname, target


def _is_keyed_by_others(model: type[models.Model]) -> bool:
    """Whether the primary key is, or includes, a reference."""
    return model._meta.pk.is_relation or isinstance(model._meta.pk, models.CompositePrimaryKey)


def _closure(key: Key, steps: dict[Key, set[Key]]) -> set[Key]:
    """Everything reachable from `key`, except itself."""
    keys: set[Key] = set()
    ahead = [key]
    while ahead:
        for reached in steps.get(ahead.pop(), ()):
            if reached not in keys and reached != key:
                keys.add(reached)
                ahead.append(reached)
    return keys


class Unique(NamedTuple):
    """Columns whose combined values must be unique in a model."""

    columns: tuple[str, ...]
    nulls_are_alike: bool

    def of(self, values: dict[str, Any]) -> tuple[Any, ...] | None:
        """The unique values; None if one of them is missing and so equals nothing."""
        parts = (values[name] for name in self.columns)
        place = tuple(bytes(value) if isinstance(value, memoryview) else value for value in parts)
        return None if None in place and not self.nulls_are_alike else place


@cache
def _uniques(model: type[models.Model]) -> list[Unique]:
    constraints: list[tuple[Any, bool]] = [
        ((field.name,), False) for field in model._meta.concrete_fields if field.unique
    ]
    for constraint in model._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint) and constraint.fields:
            constraints.append((constraint.fields, constraint.nulls_distinct is False))
    constraints += [(names, False) for names in model._meta.unique_together]
    if isinstance(pk := model._meta.pk, models.CompositePrimaryKey):
        constraints.append((pk.field_names, False))
    return [Unique(tuple(model._meta.get_field(name).attname for name in names), alike) for names, alike in constraints]
