"""Writes many prepared trajectories at once with COPY, in one transaction of a few statements.

A trajectory that the workspace already has is skipped, even if another import is writing it concurrently.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from apps.common.ids import new_id
from apps.policies.models import Policy
from apps.trajectories.imports.preparation import STEP_COLUMNS, Prepared
from apps.trajectories.models import Original, Step, Task, Trajectory
from apps.trajectories.outlines import clip, visible
from contract import jsontext
from contract.task_parts import MARK, whole_key
from contract.trajectory import Task as TaskRecord

TRAJECTORY_COLUMNS = (
    *("id", "workspace_id", "task_id", "policy_id", "source", "external_id", "import_batch_id", "rollout_batch_id"),
    *("reward", "success", "termination", "step_count", "error_count", "token_count", "seconds"),
    *("tags", "called", "tools", "closing", "info", "content_hash", "course"),
)

TASK_COLUMNS = (
    *("id", "workspace_id", "environment", "key"),
    *("instruction", "initial_state", "success_check", "category", "difficulty", "held_out"),
)
TaskIdentity = tuple[str, str]
"""Environment and key, as stored."""

_COPY_START = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
_COPY_END = struct.pack("!h", -1)


class Origin(NamedTuple):
    """The origin stored with each trajectory."""

    workspace_id: UUID
    source: str
    import_batch_id: UUID | None = None
    rollout_batch_id: UUID | None = None
    policy_id: UUID | None = None
    """The policy of all of them; if None, each record's own name applies."""

    policy_name: str = ""
    """The policy of trajectories that name none. It isn't part of a record's content, and so not of its hash."""


class Copied(NamedTuple):
    """The result of `copy_in`."""

    trajectories: int
    steps: int
    duplicates: int


@transaction.atomic
def copy_in(prepared: Sequence[Prepared], origin: Origin) -> Copied:
    """Write prepared records, skipping those that the workspace already has."""
    if not prepared:
        return Copied(0, 0, 0)
    tasks = _task_ids(origin.workspace_id, (item.task for item in prepared))
    names = {name for item in prepared if (name := item.policy or origin.policy_name)}
    policies = _policy_ids(origin.workspace_id, names if origin.policy_id is None else set())
    # Of several with the same content, which may differ in their outcome, the database would insert any.
    distinct: dict[bytes, Prepared] = {}
    for item in prepared:
        distinct.setdefault(item.columns["content_hash"], item)
    added = _insert_trajectories(distinct.values(), origin, tasks, policies)
    new = [item for item in prepared if item.id in added]
    _copy(Step._meta.db_table, STEP_COLUMNS, (item.steps for item in new))
    _copy(Original._meta.db_table, ("trajectory_id", "body"), (item.original for item in new))
    steps = sum(item.columns["step_count"] for item in new)
    return Copied(trajectories=len(new), steps=steps, duplicates=len(prepared) - len(new))


@transaction.atomic
def replace(prepared: Prepared, origin: Origin) -> bool:
    """Replace the content of the stored trajectory with that id; False, with nothing changed, if another in the workspace has the same content.

    The caller must hold its row lock and have checked that nothing depends on the previous content.
    """
    same = Trajectory.objects.filter(workspace=origin.workspace_id, content_hash=prepared.columns["content_hash"])
    if same.exclude(pk=prepared.id).exists():
        return False
    tasks = _task_ids(origin.workspace_id, [prepared.task])
    names = {prepared.policy} if prepared.policy and origin.policy_id is None else set()
    values = {
        **prepared.columns,
        "task_id": tasks[_identity(prepared.task)],
        "policy_id": origin.policy_id or _policy_ids(origin.workspace_id, names).get(prepared.policy or ""),
    }
    if Trajectory.objects.filter(pk=prepared.id, outcome_batch__isnull=False).exists():
        del values["success"]  # outcomes from reports are never changed
    settings = ", ".join(f'"{name}" = %s' for name in values)
    with connection.cursor() as cursor:
        cursor.execute(
            f'UPDATE "{Trajectory._meta.db_table}" SET {settings} WHERE id = %s', [*values.values(), prepared.id]
        )
    Step.objects.filter(trajectory=prepared.id).delete()
    Original.objects.filter(trajectory=prepared.id).delete()
    _copy(Step._meta.db_table, STEP_COLUMNS, [prepared.steps])
    _copy(Original._meta.db_table, ("trajectory_id", "body"), [prepared.original])
    return True


def copy_content(prepared: Sequence[Prepared], *, originals: Sequence[Prepared]) -> None:
    """Write the steps of trajectories whose rows the caller writes in the same transaction, and the originals of some of them."""
    _copy(Step._meta.db_table, STEP_COLUMNS, (item.steps for item in prepared))
    _copy(Original._meta.db_table, ("trajectory_id", "body"), (item.original for item in originals))


def _copy(table: str, columns: Sequence[str], rows: Iterable[bytes]) -> None:
    names = ", ".join(f'"{name}"' for name in columns)
    into = f'COPY "{table}" ({names}) FROM STDIN (FORMAT binary)'
    # Django doesn't wrap `copy`, so its errors have to be converted explicitly.
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(into) as copy:
        copy.write(_COPY_START)
        for row in rows:
            copy.write(row)
        copy.write(_COPY_END)


def _insert_new(
    table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, unique: Sequence[str], returning: str
) -> list[tuple[Any, ...]]:
    """Insert the rows whose `unique` columns are new; returns the `returning` columns of those.

    Inserts in the order of the unique columns, so that two imports with the same rows wait for each other without a deadlock.
    """
    names = ", ".join(f'"{name}"' for name in columns)
    key = ", ".join(f'"{name}"' for name in unique)
    incoming = f"incoming_{table}"
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {incoming} ON COMMIT DELETE ROWS "
            f'AS SELECT {names} FROM "{table}" WITH NO DATA'
        )
        cursor.execute(f"TRUNCATE {incoming}")
        with connection.wrap_database_errors, cursor.copy(f"COPY {incoming} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        cursor.execute(
            f'INSERT INTO "{table}" ({names}) SELECT {names} FROM {incoming} ORDER BY {key} '
            f"ON CONFLICT ({key}) DO NOTHING RETURNING {returning}"
        )
        inserted: list[tuple[Any, ...]] = cursor.fetchall()
        return inserted


def _insert_trajectories(
    prepared: Iterable[Prepared], origin: Origin, tasks: dict[TaskIdentity, UUID], policies: dict[str, UUID]
) -> set[UUID]:
    """Insert the new ones; returns their ids."""
    shared = {
        "workspace_id": origin.workspace_id,
        "source": origin.source,
        "import_batch_id": origin.import_batch_id,
        "rollout_batch_id": origin.rollout_batch_id,
    }

    def row(item: Prepared) -> list[Any]:
        policy = origin.policy_id or policies.get(item.policy or origin.policy_name)
        outcome = {} if item.verdict is None else {"success": item.verdict}
        values = {
            **shared,
            **item.columns,
            **outcome,
            "id": item.id,
            "task_id": tasks[_identity(item.task)],
            "policy_id": policy,
        }
        return [values[name] for name in TRAJECTORY_COLUMNS]

    table, unique = Trajectory._meta.db_table, ("workspace_id", "content_hash")
    return {row[0] for row in _insert_new(table, TRAJECTORY_COLUMNS, map(row, prepared), unique=unique, returning="id")}


def _identity(task: TaskRecord) -> TaskIdentity:
    """Keys too long for the column are cut, with a digest of the whole appended."""
    key = visible(task.key)
    if len(key) > 300:
        key = f"{key[:259]}…{hashlib.sha256(key.encode()).hexdigest()[:40]}"
    return clip(task.environment, 100), key


def _task_ids(workspace_id: UUID, records: Iterable[TaskRecord]) -> dict[TaskIdentity, UUID]:
    """The ids of these tasks, creating new ones. The first record of a task defines it, and any record can hold it out."""
    tasks: dict[TaskIdentity, TaskRecord] = {}
    held_out: set[TaskIdentity] = set()
    for record in records:
        tasks.setdefault(_identity(record), record)
        if record.held_out:
            held_out.add(_identity(record))
    task_ids = _existing_tasks(workspace_id, tasks)
    missing = sorted(tasks.keys() - task_ids.keys())
    if missing:
        rows = (_task_row(workspace_id, identity, tasks[identity]) for identity in missing)
        unique = ("workspace_id", "environment", "key")
        inserted = _insert_new(Task._meta.db_table, TASK_COLUMNS, rows, unique=unique, returning="environment, key, id")
        task_ids |= {(environment, key): identifier for environment, key, identifier in inserted}
        if len(task_ids) < len(tasks):  # another import created some of them concurrently
            task_ids |= _existing_tasks(workspace_id, tasks.keys() - task_ids.keys())
    held_out |= _parts_of_held_out(workspace_id, tasks)
    _hold_out(workspace_id, {task_ids[identity] for identity in held_out})
    return task_ids


def _parts_of_held_out(workspace_id: UUID, identities: Iterable[TaskIdentity]) -> set[TaskIdentity]:
    """Those that are parts of a task that is held out, whether or not their own records say so."""
    wholes = {identity: (identity[0], key) for identity in identities if (key := whole_key(identity[1]))}
    if not wholes:
        return set()
    held_out = Task.objects.filter(workspace=workspace_id, held_out=True, key__in={key for _, key in wholes.values()})
    known = set(held_out.values_list("environment", "key"))
    return {part for part, whole in wholes.items() if whole in known}


def _hold_out(workspace_id: UUID, ids: Collection[UUID]) -> None:
    """Hold out these tasks, and those that are parts of them, from now on: nothing may be learned from them, even if earlier records didn't say so."""
    learned = Task.objects.filter(pk__in=ids, held_out=False)
    wholes = set(learned.values_list("environment", "key")) if ids else set()
    if not wholes:
        return
    parts = Task.objects.filter(workspace=workspace_id, environment__in={environment for environment, _ in wholes})
    part_keys = parts.filter(key__contains=MARK, held_out=False).values_list("environment", "key", "pk")
    of_parts = [pk for environment, key, pk in part_keys if (environment, whole_key(key)) in wholes]
    family = Task.objects.filter(pk__in=[*ids, *of_parts])
    # In one order, so that two imports wait for each other without a deadlock.
    family_ids = list(family.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    Task.objects.filter(pk__in=family_ids).update(held_out=True)


def _existing_tasks(workspace_id: UUID, identities: Iterable[TaskIdentity]) -> dict[TaskIdentity, UUID]:
    keys = [key for _, key in identities]
    rows = Task.objects.filter(workspace_id=workspace_id, key__in=keys).values_list("environment", "key", "id")
    return {(environment, key): identifier for environment, key, identifier in rows}


def _task_row(workspace_id: UUID, identity: TaskIdentity, record: TaskRecord) -> list[Any]:
    return [
        *(new_id(), workspace_id, *identity),
        visible(record.instruction),
        jsontext.dumps(record.initial_state).decode(),
        jsontext.dumps(record.success_check).decode(),
        *(clip(record.category, 100), clip(record.difficulty, 50), record.held_out),
    ]


def _policy_ids(workspace_id: UUID, names: set[str]) -> dict[str, UUID]:
    """The ids of the policies with these names; unknown ones are created with only a name."""
    policy_ids = dict(Policy.objects.filter(workspace_id=workspace_id, name__in=names).values_list("name", "id"))
    missing = sorted(names - policy_ids.keys())
    if missing:
        Policy.objects.bulk_create(
            [Policy(workspace_id=workspace_id, name=name, kind=Policy.Kind.EXTERNAL) for name in missing],
            ignore_conflicts=True,
        )
        policy_ids |= dict(Policy.objects.filter(workspace_id=workspace_id, name__in=missing).values_list("name", "id"))
    return policy_ids
