"""Sorting of lists. A list declares its indexed columns; `sort` in the URL selects one and the direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Order(NamedTuple):
    """One way to sort a list."""

    key: str
    """Its value in the URL; empty for the default."""
    fields: tuple[str, ...]
    """Fields for `page_of`. There is an index on the workspace followed by these."""
    caption: str
    """Caption below the list. Empty for the pager's default: newest first."""

    @property
    def is_descending(self) -> bool:
        return self.fields[0].startswith("-")


class Column(NamedTuple):
    """A sortable column: the orders of the first and second click on its header."""

    title: str
    first: Order
    second: Order


def by_age(title: str) -> Column:
    """A column sorted by age: newest first, the default of all lists."""
    return Column(title, Order("", ("-pk",), ""), Order("oldest", ("pk",), "Oldest first"))


def by_name(title: str, *fields: str, of: str = "name") -> Column:
    """A column sorted along an index on `fields`."""
    backward = tuple(f"-{field}" for field in fields)
    return Column(title, Order(of, fields, f"By {of}"), Order(f"-{of}", backward, f"By {of}, backward"))


@dataclass(frozen=True)
class Sorting:
    """The columns of a list, and the order selected in the URL."""

    columns: Sequence[Column]
    order: Order

    @property
    def key(self) -> str:
        return self.order.key

    @property
    def fields(self) -> tuple[str, ...]:
        return self.order.fields

    @property
    def caption(self) -> str:
        return self.order.caption

    @property
    def orders(self) -> list[Order]:
        """All orders, column by column."""
        return [order for column in self.columns for order in (column.first, column.second)]

    def head(self, title: str) -> Head:
        """What a column's header shows. A KeyError means that a template names an unknown column."""
        column = {column.title: column for column in self.columns}[title]
        chosen = self.order if self.order in (column.first, column.second) else None
        target = column.second if chosen == column.first else column.first
        return Head(title, target.key, "" if chosen is None else "descending" if chosen.is_descending else "ascending")


class Head(NamedTuple):
    title: str
    target: str
    """The `sort` value of a click."""
    direction: str
    """Value of aria-sort; empty if the list is sorted by another column."""


def sorting_by(columns: Sequence[Column], key: str) -> Sorting:
    """An unknown `key` may come from an outdated link: the default order is used."""
    orders = {order.key: order for column in columns for order in (column.first, column.second)}
    return Sorting(columns, orders.get(key, orders[""]))
