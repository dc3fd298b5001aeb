"""Ids of imported rows: unchanged if all of them are free in this installation; otherwise all are changed in the same way.

Only the low bits of an id change, so ids still sort by creation time, and no two ids become equal. Only ids of rows in the archive are
references: a row can't refer to an object of another workspace.
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
    """The bits to flip in the ids of an import; the same in each of its attempts."""
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
        """Add the ids of a table's rows."""
        into = "COPY transfer_ids (id) FROM STDIN"
        with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(into) as copy:
            for old_id in ids:
                copy.write_row((old_id,))

    def settle(self, models: Iterable[type[Model]], *, may_keep: bool) -> None:
        """Decide whether the ids stay, after all have been added."""
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
        """Look up which of these ids the archive has, for the rows that are read next."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM transfer_ids WHERE id = ANY(%s)", [list(ids)])
            self._known = {known_id for (known_id,) in cursor.fetchall()}

    def has(self, identifier: UUID) -> bool:
        """Whether the archive has an id, among those looked up last."""
        return identifier in self._known

    def changed(self, identifier: UUID) -> UUID:
        """The id in this installation of a row in the archive."""
        return identifier if self.are_kept else UUID(int=identifier.int ^ self._mask)

    def changed_if_known(self, identifier: UUID) -> UUID:
        """The same for an id whose row may no longer exist: in that case the new id doesn't exist, either."""
        return self.changed(identifier) if self.has(identifier) else UUID(int=identifier.int ^ self._mask)

    def changed_in(self, value: Any) -> Any:
        """JSON or text in which all ids of the archive's rows are changed."""
        if self.are_kept:
            return value
        text = value if isinstance(value, str) else json.dumps(value)
        replaced = AN_ID.sub(lambda match: self._if_known(match[0]), text)
        return replaced if isinstance(value, str) else json.loads(replaced)

    def _if_known(self, text: str) -> str:
        return str(self.changed(UUID(text))) if UUID(text) in self._known else text


def ids_in(value: Any) -> set[UUID]:
    """The ids that occur in JSON or text."""
    text = value if isinstance(value, str) else json.dumps(value)
    return {UUID(match) for match in AN_ID.findall(text)}


class Numbers:
    """Old and new primary keys of a table with numeric keys. Old ones must be added in ascending order; each pair takes 16 bytes."""

    def __init__(self) -> None:
        self._old, self._new = array("q"), array("q")

    def add(self, old: int, new: int) -> bool:
        """Add a pair; returns False if `old` isn't larger than the previous one."""
        if self._old and old <= self._old[-1]:
            return False
        self._old.append(old)
        self._new.append(new)
        return True

    def new(self, old: int) -> int | None:
        """The new key of a row that has been read; None if there is no such row."""
        index = bisect_left(self._old, old)
        return self._new[index] if index < len(self._old) and self._old[index] == old else None


def next_numbers(model: type[Model], count: int) -> list[int]:
    """Reserve this many primary keys."""
    table, column = model._meta.db_table, model._meta.pk.column
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)",
            [connection.ops.quote_name(table), column, count],
        )
        return [number for (number,) in cursor.fetchall()]
