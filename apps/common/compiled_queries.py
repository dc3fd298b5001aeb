"""Frequent queries whose SQL is compiled once per process.

Django compiles a query's SQL on each execution, which is most of the cost of a small read, more than executing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID, uuid4

from django.db import DEFAULT_DB_ALIAS, connection, models
from django.db.models.query import get_related_populators

M = TypeVar("M", bound=models.Model)

Value = UUID | int | str | datetime | None
_UNLIKELY = count(2_000_000_011, 7_919)
_NEVER = datetime(9876, 5, 4, 3, 2, 1, tzinfo=UTC)
_STAND_INS: dict[type, Callable[[], Any]] = {
    UUID: uuid4,
    int: lambda: next(_UNLIKELY),
    str: lambda: str(uuid4()),
    datetime: lambda: _NEVER + timedelta(seconds=next(_UNLIKELY) % 100_000),
}


class _Statement(NamedTuple):
    """SQL, and which of its parameters are values."""

    sql: str
    params: list[Any]
    slots: list[tuple[int, str]]
    converters: list[tuple[int, Any, Any]]
    """Column, functions, expression."""

    def with_values(self, values: dict[str, Value]) -> list[Any]:
        """The parameters."""
        params = self.params.copy()
        for at, name in self.slots:
            params[at] = values[name]
        return params

    def converted(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[list[Any]]:
        """Rows as Django returns them."""
        for record in rows:
            row = list(record)
            for at, functions, expression in self.converters:
                for function in functions:
                    row[at] = function(row[at], expression, connection)
            yield row


class _Instances(NamedTuple):
    """How rows become instances of a model."""

    model: type[models.Model]
    columns: slice
    """The model's own columns in a row."""
    fields: list[str]
    related: list[Any]
    annotations: dict[str, int]
    """Columns of annotations, by name."""


class CompiledRows:
    """The query that `build` returns, with values that vary between calls, and rows as of `values_list`:
    `CompiledRows(lambda pk: Item.objects.filter(pk=pk).values_list("title", "state"), pk=int)`.

    `build` is called once, with placeholders of these types; it must not depend on their values, or on the time. None only
    works as a value where `= NULL`, which is never true, is intended.
    """

    def __init__(self, build: Callable[..., models.QuerySet[Any, Any]], **types: type[Any]) -> None:
        self._build, self._types = build, types

    def rows(self, **values: Value) -> list[tuple[Any, ...]]:
        """Every row."""
        return self.read(_fetched(*self.sql(**values)))

    def sql(self, **values: Value) -> tuple[str, list[Any]]:
        """The SQL and its parameters."""
        return self._statement.sql, self._statement.with_values(values)

    def read(self, rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Every row, if the SQL was executed elsewhere and returned `rows`."""
        return list(map(tuple, self._statement.converted(rows)))

    @cached_property
    def _statement(self) -> _Statement:
        return _compiled(self._build, self._types)[1]


class CompiledQuery(Generic[M]):
    """Like `CompiledRows`, with instances of a model: `CompiledQuery(lambda pk: Item.objects.filter(pk=pk), pk=int)`."""

    def __init__(self, build: Callable[..., models.QuerySet[M]], **types: type[Any]) -> None:
        self._build, self._types = build, types

    def all(self, **values: Value) -> list[M]:
        """Every row, as an instance."""
        return list(self.read(_fetched(*self.sql(**values))))

    def first(self, **values: Value) -> M | None:
        """The first row, if any. All rows are fetched, so the query must not match many."""
        return next(self.read(_fetched(*self.sql(**values))), None)

    def get(self, **values: Value) -> M:
        """The row. Raises the model's DoesNotExist."""
        instance = self.first(**values)
        if instance is None:
            raise self._compiled[1].model.DoesNotExist  # type: ignore[attr-defined]  # of every concrete model
        return instance

    def sql(self, **values: Value) -> tuple[str, list[Any]]:
        """The SQL and its parameters."""
        statement, _ = self._compiled
        return statement.sql, statement.with_values(values)

    def read(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[M]:
        """Every row, as an instance, if the SQL was executed elsewhere and returned `rows`."""
        statement, instances = self._compiled
        for row in statement.converted(rows):
            instance: Any = instances.model.from_db(DEFAULT_DB_ALIAS, instances.fields, row[instances.columns])
            for populator in instances.related:
                populator.populate(row, instance)
            for name, at in instances.annotations.items():
                setattr(instance, name, row[at])
            yield instance

    @cached_property
    def _compiled(self) -> tuple[_Statement, _Instances]:
        compiler, statement = _compiled(self._build, self._types)
        info: Any = compiler.klass_info
        select_fields = info["select_fields"]
        columns = slice(select_fields[0], select_fields[-1] + 1)
        fields = [column[0].target.attname for column in compiler.select[columns]]
        related = get_related_populators(info, compiler.select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]  # the stubs are of a later Django
        return statement, _Instances(info["model"], columns, fields, related, compiler.annotation_col_map)


def _fetched(sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _compiled(build: Callable[..., models.QuerySet[Any, Any]], types: dict[str, type[Any]]) -> tuple[Any, _Statement]:
    """Django's compiler of the query, and what it compiled."""
    stand_ins = {name: _STAND_INS[kind]() for name, kind in types.items()}
    compiler: Any = build(**stand_ins).query.get_compiler(DEFAULT_DB_ALIAS)
    sql, params = compiler.as_sql()
    names = {value: name for name, value in stand_ins.items()}
    slots = [(at, names[param]) for at, param in enumerate(params) if _is_hashable(param) and param in names]
    if {name for _, name in slots} != types.keys():
        raise TypeError(f"Not every value of {sorted(types)} is a parameter of: {sql}")
    converters = compiler.get_converters([column[0] for column in compiler.select])
    steps = [(at, functions, expression) for at, (functions, expression) in converters.items()]
    return compiler, _Statement(sql, list(params), slots, steps)


def _is_hashable(value: Any) -> bool:
    return isinstance(value, (UUID, int, str, datetime))
