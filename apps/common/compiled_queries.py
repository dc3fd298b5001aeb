"""Frequent queries whose SQL is compiled once per process.

Django compiles a query's SQL on each execution, which is most of the cost of a small read, more than executing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


class _Compiled(NamedTuple):
    sql: str
    params: list[Any]
    slots: list[tuple[int, str]]
    """Compiled SQL with the mapping of parameters to values."""
    model: type[models.Model]
    columns: slice
    """The model's own columns in a row."""
    fields: list[str]
    converters: list[tuple[int, Any, Any]]
    """Column, functions, expression."""
    related: list[Any]


class CompiledQuery(Generic[M]):
    """The query that `build` returns, with values that vary between calls: `CompiledQuery(lambda pk: Item.objects.filter(pk=pk), pk=int)`.

    `build` is called once, with placeholders of these types; it must not depend on their values, or on the time. None only
    works as a value where `= NULL`, which is never true, is intended.
    """

    def __init__(self, build: Callable[..., models.QuerySet[M]], **types: type[Any]) -> None:
        self._build, self._types = build, types

    def all(self, **values: Value) -> list[M]:
        """Every row, as an instance."""
        return list(self._instances(values))

    def first(self, **values: Value) -> M | None:
        """The first row, if any. All rows are fetched, so the query must not match many."""
        return next(self._instances(values), None)

    def get(self, **values: Value) -> M:
        """The row. Raises the model's DoesNotExist."""
        instance = self.first(**values)
        if instance is None:
            raise self._compiled.model.DoesNotExist  # type: ignore[attr-defined]  # of every concrete model
        return instance

    def _instances(self, values: dict[str, Value]) -> Iterator[M]:
        compiled = self._compiled
        params = compiled.params.copy()
        for at, name in compiled.slots:
            params[at] = values[name]
        with connection.cursor() as cursor:
            cursor.execute(compiled.sql, params)
            rows = cursor.fetchall()
        for record in rows:
            row = list(record)
            for at, functions, expression in compiled.converters:
                for function in functions:
                    row[at] = function(row[at], expression, connection)
            instance: Any = compiled.model.from_db(DEFAULT_DB_ALIAS, compiled.fields, row[compiled.columns])
            for populator in compiled.related:
                populator.populate(row, instance)
            yield instance

    @cached_property
    def _compiled(self) -> _Compiled:
        stand_ins = {name: _STAND_INS[kind]() for name, kind in self._types.items()}
        compiler = self._build(**stand_ins).query.get_compiler(DEFAULT_DB_ALIAS)
        sql, params = compiler.as_sql()
        names = {value: name for name, value in stand_ins.items()}
        slots = [(at, names[param]) for at, param in enumerate(params) if _is_hashable(param) and param in names]
        if {name for _, name in slots} != self._types.keys():
            raise TypeError(f"Not every value of {sorted(self._types)} is a parameter of: {sql}")
        info: Any = compiler.klass_info
        select_fields = info["select_fields"]
        columns = slice(select_fields[0], select_fields[-1] + 1)
        select: Any = compiler.select
        converters = compiler.get_converters([column[0] for column in select])
        return _Compiled(
            sql,
            list(params),
            slots,
            info["model"],
            columns,
            [column[0].target.attname for column in select[columns]],
            [(at, functions, expression) for at, (functions, expression) in converters.items()],
            get_related_populators(info, select, DEFAULT_DB_ALIAS),  # type: ignore[call-arg]  # the stubs are of a later Django
        )


def _is_hashable(value: Any) -> bool:
    return isinstance(value, (UUID, int, str, datetime))
