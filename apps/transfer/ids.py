"""Ids of imported rows: they stay as they are if all of them are free in this installation; otherwise all of them change alike.

A changed id has other low bits, so ids still sort by the time at which the rows were made, and two ids never become one. Only ids of rows in
the archive are references: a row can't refer to something that belongs to another workspace.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Model

LOW_BITS = (1 << 62) - 1
"""The bits of an id after its time, version, and variant."""
AN_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def mask_of(import_id: UUID) -> int:
    """What ids of an import change by. The same in each of its attempts."""
    return int.from_bytes(hashlib.sha256(import_id.bytes).digest()[:8]) & LOW_BITS | 1


class Ids:
    """The ids of one archive. They're kept in a temporary table, since there may be millions."""

    def __init__(self, import_id: UUID) -> None:
        self._mask = mask_of(import_id)
        self.are_kept = True
        self._known: set[UUID] = set()
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE IF NOT EXISTS transfer_ids (id uuid NOT NULL) ON COMMIT DROP")
            cursor.execute("TRUNCATE transfer_ids")

    def add(self, model: type[Model], ids: Iterator[UUID]) -> None:
        """The ids of a table's rows."""
        into = "COPY transfer_ids (id) FROM STDIN"
        with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(into) as copy:
            for old_id in ids:
                copy.write_row((old_id,))

    def settle(self, models: Iterable[type[Model]], *, may_keep: bool) -> None:
        """Decide whether the ids stay, once all are added."""
        self.are_kept = may_keep
        with connection.cursor() as cursor:
            cursor.execute("CREATE INDEX ON transfer_ids USING hash (id)")
            cursor.execute("ANALYZE transfer_ids")
            for model in models:
                table = connection.ops.quote_name(model._meta.db_table)
                cursor.execute(f"SELECT EXISTS (SELECT FROM {table} JOIN transfer_ids USING (id))")
                if cursor.fetchone()[0]:
                    self.are_kept = False
                    return

    def look_up(self, ids: set[UUID]) -> None:
        """Find out which of these the archive has: for the rows that are read next."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM transfer_ids WHERE id = ANY(%s)", [list(ids)])
            self._known = {known_id for (known_id,) in cursor.fetchall()}

    def has(self, identifier: UUID) -> bool:
        """Whether the archive has it, of those looked up last."""
        return identifier in self._known

    def changed(self, identifier: UUID) -> UUID:
        """The id of a row of the archive in this installation."""
        return identifier if self.are_kept else UUID(int=identifier.int ^ self._mask)

    def changed_if_known(self, identifier: UUID) -> UUID:
        """The same of an id that may name nothing any more: then it names nothing here, either."""
        return self.changed(identifier) if self.has(identifier) else UUID(int=identifier.int ^ self._mask)

    def changed_in(self, value: Any) -> Any:
        """JSON, or text, with the ids of the archive's rows changed wherever they are in it."""
        if self.are_kept:
            return value
        text = value if isinstance(value, str) else json.dumps(value)
        replaced = AN_ID.sub(lambda match: self._if_known(match[0]), text)
        return replaced if isinstance(value, str) else json.loads(replaced)

    def _if_known(self, text: str) -> str:
        return str(self.changed(UUID(text))) if UUID(text) in self._known else text


def ids_in(value: Any) -> set[UUID]:
    """The ids that are written in JSON or text."""
    text = value if isinstance(value, str) else json.dumps(value)
    return {UUID(match) for match in AN_ID.findall(text)}


class Numbers:
    """Old and new primary keys of a table that counts its rows. Old ones come in ascending order; each takes 16 bytes."""

    def __init__(self) -> None:
        self._old, self._new = array("q"), array("q")

    def add(self, old: int, new: int) -> bool:
        """False if it isn't larger than the one before."""
        if self._old and old <= self._old[-1]:
            return False
        self._old.append(old)
        self._new.append(new)
        return True

    def new(self, old: int) -> int | None:
        """The new one of a row that has been read."""
        index = bisect_left(self._old, old)
        return self._new[index] if index < len(self._old) and self._old[index] == old else None


def next_numbers(model: type[Model], count: int) -> list[int]:
    """As many primary keys, which nobody else gets."""
    table, column = model._meta.db_table, model._meta.pk.column
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)",
            [connection.ops.quote_name(table), column, count],
        )
        return [number for (number,) in cursor.fetchall()]
