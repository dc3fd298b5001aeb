"""How lists are sorted. A list declares its columns that have an index; `sort` in its address says by which of them, and which way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Order(NamedTuple):
    """One way to sort a list."""

    key: str
    """Its value in the address; empty for the usual one."""
    fields: tuple[str, ...]
    """As page_of takes them. An index begins with them, after the workspace."""
    words: str
    """Under the list. Empty where the pager's own words are true: newest first."""

    @property
    def is_descending(self) -> bool:
        return self.fields[0].startswith("-")


class Column(NamedTuple):
    """A column to sort by: the order of the first click on its head, and of the next."""

    title: str
    first: Order
    second: Order


def by_age(title: str) -> Column:
    """The newest first, as in every list that isn't sorted otherwise."""
    return Column(title, Order("", ("-pk",), ""), Order("oldest", ("pk",), "Oldest first"))


def by_name(title: str, *fields: str, of: str = "name") -> Column:
    """Along an index on `fields`."""
    backward = tuple(f"-{field}" for field in fields)
    return Column(title, Order(of, fields, f"By {of}"), Order(f"-{of}", backward, f"By {of}, backward"))


@dataclass(frozen=True)
class Sorting:
    """The columns of a list, and the order that its address asks for."""

    columns: Sequence[Column]
    order: Order

    @property
    def key(self) -> str:
        return self.order.key

    @property
    def fields(self) -> tuple[str, ...]:
        return self.order.fields

    @property
    def words(self) -> str:
        return self.order.words

    @property
    def orders(self) -> list[Order]:
        """All that there are, column by column."""
        return [order for column in self.columns for order in (column.first, column.second)]

    def head(self, title: str) -> Head:
        """What the head of a column shows. A KeyError is a template that names no column of its list."""
        column = {column.title: column for column in self.columns}[title]
        chosen = self.order if self.order in (column.first, column.second) else None
        target = column.second if chosen == column.first else column.first
        return Head(title, target.key, "" if chosen is None else "descending" if chosen.is_descending else "ascending")


class Head(NamedTuple):
    title: str
    target: str
    """The `sort` of a click."""
    direction: str
    """As aria-sort has it; empty where the list is sorted by another column."""


def sorting_by(columns: Sequence[Column], key: str) -> Sorting:
    """An unknown `key` is a link from elsewhere: the list is sorted as usual, newest first."""
    orders = {order.key: order for column in columns for order in (column.first, column.second)}
    return Sorting(columns, orders.get(key, orders[""]))
