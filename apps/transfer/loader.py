"""Writes the rows of an archive into an empty workspace, in the caller's transaction."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import connection, models
from django.db.models import Model
from django.db.models.fields import NOT_PROVIDED

from apps.accounts.models import User, Workspace
from apps.common.fields import FaithfulJSONField
from apps.datasets.models import Version
from apps.trajectories.imports.bulk_copy import copy_content
from apps.trajectories.imports.preparation import Prepared, prepare
from apps.trajectories.models import Trajectory
from apps.transfer import people
from apps.transfer.archive_reader import BATCH_BYTES, ID, MAX_TRAJECTORY_VALUES, ArchiveReader, parsed
from apps.transfer.archive_writer import ORIGINALS, TRAJECTORIES
from apps.transfer.columns import AnyField, BadValue, read, written
from apps.transfer.frozen_files import FrozenFiles
from apps.transfer.ids import Ids, Numbers, ids_in, next_numbers
from apps.transfer.json_columns import SHAPES
from apps.transfer.refusals import BadArchive, TransferRefused
from apps.transfer.tables import NUMBERED, TABLES, Row, Table, is_numbered
from contract import jsontext
from contract.trajectory import Outcome
from contract.trajectory import Step as StepRecord
from contract.trajectory import Trajectory as TrajectoryRecord
from contract.values import BadRow

BEGINS_WITH_ID: Final = re.compile(rb'\{ ?"id": ?"(%s)"' % ID.encode())


class NotEmpty(TransferRefused):
    """The workspace has content."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(
            f"The workspace {workspace} has content already. An archive is imported only into a workspace without content: "
            "create a new one, and import it there."
        )


INFO_WITH_IDS: Final = ("session", "calls", "rollout")
"""Fields of a trajectory's info with ids of other rows. Feedback on an answer finds its step by the call's id."""
MISFITS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions raised when code reads JSON of an unexpected shape."""


def refuse_content(workspace: Workspace) -> None:
    """Refuse a workspace with content. Raises NotEmpty."""
    if any(table.rows(workspace).exists() for table in TABLES):
        raise NotEmpty(workspace)


class Loader:
    """Loads one archive."""

    def __init__(
        self,
        archive: ArchiveReader,
        workspace: Workspace,
        *,
        import_id: UUID,
        files: FrozenFiles,
        progress: Callable[[int], None],
    ) -> None:
        self._archive = archive
        self._workspace = workspace
        self._files = files
        self._progress = progress
        self.ids = Ids(import_id)
        self.people = people.Reader(workspace)
        self._numbers: dict[type[Model], Numbers] = {model: Numbers() for model in NUMBERED}

    def load(self, *, may_keep_ids: bool) -> dict[str, int]:
        """Write everything; returns counts by table. Raises BadArchive, and database errors for values that the database refuses."""
        uuid_tables = [table for table in TABLES if isinstance(table.model._meta.pk, models.UUIDField)]
        for table in uuid_tables:
            self.ids.add(table.model, self._ids_of(table))
        self.ids.settle([table.model for table in uuid_tables], may_keep=may_keep_ids)
        for location, row in self._archive.rows(people.MEMBER):
            self.people.add(row, location)
        counts = {table.label: self._load(table) for table in TABLES}
        # Dangling references are refused here rather than by the commit.
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        return counts

    def _ids_of(self, table: Table) -> Iterator[UUID]:
        for number, line in enumerate(self._archive.lines(table.name), start=1):
            match = BEGINS_WITH_ID.match(line)
            if match is None:
                location = f"{table.name}, line {number:,}"
                raise BadArchive(location, "It doesn't begin with an id.", '{"id":"…", …}.')
            yield UUID(match[1].decode())

    def _load(self, table: Table) -> int:
        reading = Reading(table, self)
        contents = _Contents(self._archive, self.ids) if table.model is Trajectory else None
        count = 0
        for batch in self._archive.batches(table.name):
            rows = reading.values(batch)
            if table.model is Version:
                for (location, row), values in zip(batch, rows, strict=True):
                    values["files"] = self._files.stored(row, values, location)
            if contents is None:
                self._copy(table.model, rows)
            else:
                self._copy_trajectories(batch, rows, contents)
            count += len(rows)
            if table.most is not None and count > table.most:
                raise BadArchive(table.name, f"It has more than {table.most:,} rows.", "as many as Retrace allows.")
            self._progress(len(rows))
        if contents is not None:
            contents.end()
        return count

    def _copy_trajectories(self, batch: Sequence[tuple[str, Row]], rows: Sequence[Row], contents: _Contents) -> None:
        """Copy trajectories together with their steps, which may be far larger than their rows."""
        ready: list[Row] = []
        for (location, row), values in zip(batch, rows, strict=True):
            contents.add(location, row, values)
            ready.append(values)
            if contents.size > BATCH_BYTES:
                self._copy(Trajectory, ready)
                contents.flush()
                ready = []
        if ready:
            self._copy(Trajectory, ready)
            contents.flush()

    def _copy(self, model: type[Model], rows: Sequence[Row]) -> None:
        columns = [field for field in model._meta.concrete_fields if field.name in rows[0]]
        names = ", ".join(connection.ops.quote_name(str(column.column)) for column in columns)
        into = f"COPY {connection.ops.quote_name(model._meta.db_table)} ({names}) FROM STDIN"
        # Django doesn't wrap `copy`, so its errors have to be converted explicitly.
        with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(into) as copy:
            for row in rows:
                copy.write_row([column.get_db_prep_save(row[column.name], connection) for column in columns])

    def reference(self, column: AnyField, value: Any) -> Any:
        """The primary key in this installation of the row that is referred to. Raises BadValue."""
        target = column.related_model
        if value is None:
            if not column.null:
                raise BadValue("null", "a reference")
            return None
        if target is User:
            person = self.people.id_of(value) if isinstance(value, str) else None
            if person is None:
                raise BadValue("a person whom the archive doesn't name", f"an e-mail address in {people.MEMBER}")
            return person
        if target in self._numbers:
            number = self._numbers[target].new(value) if type(value) is int and abs(value) < 1 << 63 else None
            if number is None:
                raise BadValue("a number that no row has", "the id of a row of its table in the archive")
            return number
        identifier = read(models.UUIDField(), value)
        if not self.ids.has(identifier):
            raise BadValue(f"{identifier}", "the id of a row of its table in the archive")
        return self.ids.changed(identifier)

    def numbers_of(self, model: type[Model]) -> Numbers:
        return self._numbers[model]

    @property
    def workspace(self) -> Workspace:
        return self._workspace


class Reading:
    """Converts the rows of one table to values of its columns."""

    def __init__(self, table: Table, loader: Loader) -> None:
        self._table = table
        self._loader = loader
        self._columns = table.columns
        self._shapes = SHAPES.get(table.model, {})
        self._names = {column.name for column in self._columns}
        fields = table.model._meta.concrete_fields
        self._left_out = [field for field in fields if field.name in table.left_out]
        self._has_workspace = any(field.name == "workspace" for field in fields)

    def values(self, batch: Sequence[tuple[str, Row]]) -> list[Row]:
        """The values of each row by column name. Raises BadArchive."""
        for location, row in batch:
            self._complete(location, row)
        self._loader.ids.look_up({identifier for _, row in batch for identifier in self._referred(row)})
        numbered = self._numbered(batch)
        return [self._value(location, row, numbered.get(index)) for index, (location, row) in enumerate(batch)]

    def _complete(self, location: str, row: Row) -> None:
        """Refuse unknown columns, and add missing ones, since the archive may come from an earlier version."""
        if unknown := sorted(row.keys() - self._names):
            raise BadArchive(location, f"There is no column “{unknown[0][:60]}”.", f"{', '.join(sorted(self._names))}.")
        for column in self._columns:
            if column.name not in row:
                if column.default is NOT_PROVIDED and not column.null:
                    raise BadArchive(location, f"It has no “{column.name}”.", "every column without a default.")
                row[column.name] = written(column, column.get_default())
        try:
            self._fit(row)
            self._table.settle(row)
            self._table.check(row)
        except MISFITS as error:
            problem = str(error)[:200] or type(error).__name__
            raise BadArchive(
                location, f"Its values don't fit together: {problem}", "a row written by Retrace."
            ) from None

    def _fit(self, row: Row) -> None:
        """Raises ValueError if a JSON column doesn't have the shape that Retrace reads."""
        for name, shape in self._shapes.items():
            if row[name] is not None:
                try:
                    shape(row[name])
                except MISFITS as error:
                    raise ValueError(f"{name}: {error}") from None

    def _referred(self, row: Row) -> Iterator[UUID]:
        for column in self._columns:
            value = row[column.name]
            is_json = isinstance(column, models.JSONField) and not isinstance(column, FaithfulJSONField)
            is_id = isinstance(value, str) and (column.primary_key or column.is_relation)
            if is_json or is_id or column.name in self._table.ids_in_text or _holds_ids(column):
                yield from ids_in(value)

    def _numbered(self, batch: Sequence[tuple[str, Row]]) -> dict[int, int]:
        """New primary keys by position in the batch, for tables with numeric keys that others refer to."""
        if self._table.model not in NUMBERED:
            return {}
        fresh = next_numbers(self._table.model, len(batch))
        numbers = self._loader.numbers_of(self._table.model)
        for (location, row), new in zip(batch, fresh, strict=True):
            old = row["id"]
            if type(old) is not int or abs(old) >= 1 << 63 or not numbers.add(old, new):
                raise BadArchive(
                    location, "Its id isn't a number, or isn't larger than the previous line's.", "a larger one."
                )
        return dict(enumerate(fresh))

    def _value(self, location: str, row: Row, number: int | None) -> Row:
        values: Row = {}
        for column in self._columns:
            try:
                values[column.name] = number if is_numbered(column) else self._converted(column, row[column.name])
            except BadValue as bad:
                raise BadArchive(f"{location}, {column.name}", f"It is {bad}", bad.expected) from None
        for column in self._left_out:
            make = self._table.left_out[column.name].value
            values[column.name] = make(row) if make else column.get_default()
        if self._has_workspace:
            values["workspace"] = self._loader.workspace.pk
        if self._table.model is Version and isinstance(values["recipe"].get("without_items"), list):
            values["recipe"] = {**values["recipe"], "without_items": self._renumbered(values["recipe"])}
        return {**values, **self._table.on_import}

    def _renumbered(self, recipe: dict[str, Any]) -> list[int]:
        id_map = self._loader.numbers_of(NUMBERED[0])
        numbers = (id_map.new(old) for old in recipe["without_items"])
        return sorted(new for new in numbers if new is not None)

    def _converted(self, column: AnyField, value: Any) -> Any:
        ids = self._loader.ids
        if column.is_relation:
            return self._loader.reference(column, value)
        converted = read(column, value)
        if converted is None:
            return None
        if isinstance(column, models.UUIDField):
            if not column.primary_key:
                return ids.changed_if_known(converted)
            if not ids.has(converted):
                raise BadValue(f"{converted}", "the id with which the line begins")
            return ids.changed(converted)
        if _holds_ids(column):
            return [ids.changed_if_known(value) for value in converted]
        is_json = isinstance(column, models.JSONField) and not isinstance(column, FaithfulJSONField)
        if is_json or column.name in self._table.ids_in_text:
            return ids.changed_in(converted)
        return converted


def _holds_ids(column: AnyField) -> bool:
    if isinstance(column, ArrayField):
        return isinstance(column.base_field, models.UUIDField)
    return isinstance(column, models.UUIDField) and not column.primary_key and not column.is_relation


def _leave_out_odd_rewards(record: TrajectoryRecord) -> None:
    """Remove rewards that aren't finite numbers, as in all imports."""
    holders: list[StepRecord | Outcome] = [*record.steps, record.outcome]
    for holder in holders:
        if holder.reward is not None and not math.isfinite(holder.reward):
            holder.reward = None


class _Contents:
    """The steps and originals of trajectories, read in parallel with the rows of their table."""

    def __init__(self, archive: ArchiveReader, ids: Ids) -> None:
        self._ids = ids
        max_bytes = settings.IMPORT_MAX_RECORD_BYTES
        self._lines = enumerate(archive.lines(TRAJECTORIES, max_bytes=2 * max_bytes), start=1)
        self._originals = archive.rows(ORIGINALS, max_bytes=2 * max_bytes)
        self._next = next(self._originals, None)
        self._held: list[Prepared] = []
        self.size = 0
        """Bytes of the lines whose steps are held."""
        self._with_original: list[Prepared] = []

    def add(self, row_location: str, row: Row, values: Row) -> None:
        """Complete a trajectory's column values from its line. Raises BadArchive."""
        number, line = next(self._lines, (0, b""))
        location = f"{TRAJECTORIES}, line {number:,}"
        if not line:
            raise BadArchive(
                row_location, f"There is no line for it in {TRAJECTORIES}.", "as many lines as trajectories."
            )
        original = self._original(row["id"])
        try:
            record = TrajectoryRecord.from_json(parsed(line, location, max_values=MAX_TRAJECTORY_VALUES))
            _leave_out_odd_rewards(record)
            prepared = prepare(record, original or b"", identifier=values["id"])
        except BadRow as bad:
            raise BadArchive(location, str(bad), str(bad.expected)) from None
        except jsontext.UnreadableJSON as error:
            raise BadArchive(location, str(error), "JSON that can be stored.") from None
        if len(record.steps) != values["step_count"]:
            raise BadArchive(
                location, f"It has {len(record.steps):,} steps.", f"{values['step_count']:,}, as its row says."
            )
        self.size += len(line) + len(original or b"")
        values.update(tools=record.tools, closing=record.closing, info=self._with_ids_changed(record.info))
        self._held.append(prepared)
        if original is not None:
            self._with_original.append(prepared)

    def flush(self) -> None:
        """Write the steps of the rows that have been written."""
        copy_content(self._held, originals=self._with_original)
        self._held, self._with_original = [], []
        self.size = 0

    def end(self) -> None:
        """Refuse lines that belong to no row. Raises BadArchive."""
        if next(self._lines, None) is not None:
            raise BadArchive(TRAJECTORIES, "It has more lines than there are trajectories.", "one for each.")
        if self._next is not None:
            raise BadArchive(self._next[0], "There is no such trajectory, or it is out of order.", "their order.")

    def _with_ids_changed(self, info: Row) -> Row:
        """A trajectory's info, whose ids of a session, calls, and rollouts change like those of their rows."""
        ids = {name: info[name] for name in INFO_WITH_IDS if name in info}
        if self._ids.are_kept or not ids:
            return info
        self._ids.look_up(ids_in(ids))
        return {**info, **self._ids.changed_in(ids)}

    def _original(self, trajectory: str) -> bytes | None:
        if self._next is None or self._next[1].get("trajectory") != trajectory:
            return None
        location, row = self._next
        self._next = next(self._originals, None)
        text, encoded = row.get("text"), row.get("base64")
        try:
            if isinstance(text, str) and row.keys() == {"trajectory", "text"}:
                return text.encode()
            if isinstance(encoded, str) and row.keys() == {"trajectory", "base64"}:
                return base64.b64decode(encoded, validate=True)
        except (UnicodeEncodeError, binascii.Error):
            pass
        raise BadArchive(location, "It isn't an original.", '{"trajectory": id, "text": "…"} or {…, "base64": "…"}.')
