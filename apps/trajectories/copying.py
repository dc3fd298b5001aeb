"""Writes many trajectories at once, by COPY in PostgreSQL's binary form.

Preparing a record (hashing, outlining, encoding its steps) needs no database, so that it happens outside the transaction; writing
what was prepared is one transaction of a few statements. A trajectory that the workspace has already is skipped, also
when another import is writing it at this moment.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import zstandard
from django.db import connection, transaction

from apps.common.ids import new_id
from apps.policies.models import Policy
from apps.trajectories import jsontext
from apps.trajectories.models import Original, Step, Task, Trajectory
from apps.trajectories.outlines import clip, outline, visible
from apps.trajectories.records import TaskRecord, TrajectoryRecord

COMPRESSION = 1
"""zstd's level for originals: on logs, higher levels cost several times as much for a tenth less."""

_compressor = zstandard.ZstdCompressor(level=COMPRESSION)

STEP_COLUMNS = (
    *("trajectory_id", "index", "is_error", "done", "context_chars", "result_chars"),
    *("reward", "seconds", "prompt_tokens", "completion_tokens"),
    *("kind", "tool", "headline", "result", "context", "message", "info"),
)
TRAJECTORY_COLUMNS = (
    *("id", "workspace_id", "task_id", "policy_id", "source", "external_id", "import_batch_id", "rollout_batch_id"),
    *("reward", "success", "termination", "step_count", "error_count", "token_count", "seconds"),
    *("tags", "tools", "closing", "info", "content_hash"),
)

_COPY_START = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
_COPY_END = struct.pack("!h", -1)
_NULL = struct.pack("!i", -1)
_STEP_FIXED = struct.Struct("!h i16s ii i? i? ii ii")
_ORIGINAL_FIXED = struct.Struct("!h i16s i")
_length = struct.Struct("!i").pack
_float8 = struct.Struct("!id").pack
_int4 = struct.Struct("!ii").pack
_EMPTY_OBJECT = _length(2) + b"{}"


class Origin(NamedTuple):
    """Where trajectories come from, as stored with each of them."""

    workspace_id: UUID
    source: str
    import_batch_id: UUID | None = None
    rollout_batch_id: UUID | None = None
    policy_id: UUID | None = None
    """The policy of all of them; where None, each record's own name decides."""

    policy_name: str = ""
    """The policy of those that name none. It is no part of what a record says, and so not of its hash."""


class Copied(NamedTuple):
    """What a call of `copy_in` did."""

    trajectories: int
    steps: int
    duplicates: int


@dataclass(slots=True)
class Prepared:
    """A record ready to be written: its light columns, and the rest encoded."""

    id: UUID
    task: TaskRecord
    policy: str | None
    columns: dict[str, Any]
    steps: bytes
    original: bytes

    @property
    def size(self) -> int:
        return len(self.steps) + len(self.original)


def prepare(record: TrajectoryRecord, original: bytes) -> Prepared:
    """Hash, outline and encode one record. Raises UnreadableJSON where it is nested too deeply to be kept."""
    identifier = new_id()
    outlines = outline(record)
    spent = [step.seconds for step in record.steps if step.seconds is not None]
    written = [step.completion_tokens for step in record.steps if step.completion_tokens is not None]
    stated = record.info.get("seconds")
    return Prepared(
        id=identifier,
        task=record.task,
        policy=clip(record.policy, 200) if record.policy else None,
        columns={
            "external_id": clip(record.external_id, 300),
            "reward": record.reward,
            "success": record.success,
            "termination": clip(record.termination, 100),
            "step_count": len(record.steps),
            "error_count": sum(line.is_error for line in outlines),
            "token_count": sum(written) if written else None,
            "seconds": sum(spent) if spent else float(stated) if isinstance(stated, int | float) else None,
            "tags": [clip(tag, 100) for tag in record.tags],
            "tools": jsontext.dumps(record.tools).decode(),
            "closing": jsontext.dumps(record.closing).decode(),
            "info": jsontext.dumps(record.info).decode(),
            "content_hash": record.content_hash(),
        },
        steps=_encode_steps(identifier.bytes, record, outlines),
        original=_encode_original(identifier.bytes, original),
    )


@transaction.atomic
def copy_in(prepared: Sequence[Prepared], origin: Origin) -> Copied:
    """Write prepared records, skipping those that the workspace has already."""
    if not prepared:
        return Copied(0, 0, 0)
    tasks = _task_ids(origin.workspace_id, (item.task for item in prepared))
    names = {name for item in prepared if (name := item.policy or origin.policy_name)}
    policies = _policy_ids(origin.workspace_id, names if origin.policy_id is None else set())
    added = _insert_trajectories(prepared, origin, tasks, policies)
    new = [item for item in prepared if item.id in added]
    _copy(Step._meta.db_table, STEP_COLUMNS, (item.steps for item in new))
    _copy(Original._meta.db_table, ("trajectory_id", "body"), (item.original for item in new))
    steps = sum(item.columns["step_count"] for item in new)
    return Copied(trajectories=len(new), steps=steps, duplicates=len(prepared) - len(new))


def unpack_original(body: bytes | memoryview) -> bytes:
    """The record as it was given, from `Original.body`."""
    # The size stands in the frame's header: written by `prepare`, never by an uploader.
    return zstandard.ZstdDecompressor().decompress(bytes(body))


def _encode_steps(identifier: bytes, record: TrajectoryRecord, outlines: list[Any]) -> bytes:
    parts: list[bytes] = []
    columns = len(STEP_COLUMNS)
    for index, (step, line) in enumerate(zip(record.steps, outlines, strict=True)):
        info = {**step.info, "error": step.error} if step.error else step.info
        parts += (
            _STEP_FIXED.pack(
                *(columns, 16, identifier, 4, index, 1, line.is_error, 1, step.done),
                *(4, min(line.context_chars, 0x7FFFFFFF), 4, min(line.result_chars, 0x7FFFFFFF)),
            ),
            _NULL if step.reward is None else _float8(8, step.reward),
            _NULL if step.seconds is None else _float8(8, step.seconds),
            _NULL if step.prompt_tokens is None else _int4(4, step.prompt_tokens),
            _NULL if step.completion_tokens is None else _int4(4, step.completion_tokens),
        )
        for text in (line.kind, line.tool, line.headline, line.result):
            encoded = text.encode()
            parts += (_length(len(encoded)), encoded)
        context, message = jsontext.dumps(step.context), jsontext.dumps(step.message)
        parts += (_length(len(context)), context, _length(len(message)), message)
        if info:
            encoded = jsontext.dumps(info)
            parts += (_length(len(encoded)), encoded)
        else:
            parts.append(_EMPTY_OBJECT)
    return b"".join(parts)


def _encode_original(identifier: bytes, original: bytes) -> bytes:
    body = _compressor.compress(original)
    return _ORIGINAL_FIXED.pack(2, 16, identifier, len(body)) + body


def _copy(table: str, columns: Sequence[str], rows: Iterable[bytes]) -> None:
    names = ", ".join(f'"{name}"' for name in columns)
    with connection.cursor() as cursor, cursor.copy(f'COPY "{table}" ({names}) FROM STDIN (FORMAT binary)') as copy:
        copy.write(_COPY_START)
        for row in rows:
            copy.write(row)
        copy.write(_COPY_END)


def _insert_trajectories(
    prepared: Sequence[Prepared], origin: Origin, tasks: dict[tuple[str, str], UUID], policies: dict[str, UUID]
) -> set[UUID]:
    """Insert those that are new; answers their ids.

    In the order of their hashes: two imports that meet at the same trajectories wait for each other, and never in a circle.
    """
    table = Trajectory._meta.db_table
    names = ", ".join(f'"{name}"' for name in TRAJECTORY_COLUMNS)
    shared = {
        "workspace_id": origin.workspace_id,
        "source": origin.source,
        "import_batch_id": origin.import_batch_id,
        "rollout_batch_id": origin.rollout_batch_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS incoming_trajectory ON COMMIT DELETE ROWS "
            f'AS SELECT {names} FROM "{table}" WITH NO DATA'
        )
        cursor.execute("TRUNCATE incoming_trajectory")
        with cursor.copy(f"COPY incoming_trajectory ({names}) FROM STDIN") as copy:
            for item in prepared:
                row = {**shared, **item.columns, "id": item.id, "task_id": tasks[_identity(item.task)]}
                row["policy_id"] = origin.policy_id or policies.get(item.policy or origin.policy_name)
                copy.write_row([row[name] for name in TRAJECTORY_COLUMNS])
        cursor.execute(
            f'INSERT INTO "{table}" ({names}) SELECT {names} FROM incoming_trajectory ORDER BY content_hash '
            f"ON CONFLICT (workspace_id, content_hash) DO NOTHING RETURNING id"
        )
        return {row[0] for row in cursor.fetchall()}


def _identity(task: TaskRecord) -> tuple[str, str]:
    """(environment, key) as stored. Keys too long for their column keep their beginning and a digest of the rest."""
    key = visible(task.key)
    if len(key) > 300:
        key = f"{key[:259]}…{hash_of(key)}"
    return clip(task.environment, 100), key


def hash_of(text: str) -> str:
    """40 characters that stand for a long text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _task_ids(workspace_id: UUID, records: Iterable[TaskRecord]) -> dict[tuple[str, str], UUID]:
    """The ids of these tasks, made where they are new. The first to name a task says what it is."""
    wanted = {_identity(record): record for record in records}
    found = _existing_tasks(workspace_id, wanted)
    missing = sorted(wanted.keys() - found.keys())
    if missing:
        Task.objects.bulk_create(
            [_task(workspace_id, identity, wanted[identity]) for identity in missing], ignore_conflicts=True
        )
        found |= _existing_tasks(workspace_id, missing)
    return found


def _existing_tasks(workspace_id: UUID, identities: Iterable[tuple[str, str]]) -> dict[tuple[str, str], UUID]:
    keys = [key for _, key in identities]
    rows = Task.objects.filter(workspace_id=workspace_id, key__in=keys).values_list("environment", "key", "id")
    return {(environment, key): identifier for environment, key, identifier in rows}


def _task(workspace_id: UUID, identity: tuple[str, str], record: TaskRecord) -> Task:
    environment, key = identity
    return Task(
        workspace_id=workspace_id,
        environment=environment,
        key=key,
        instruction=visible(record.instruction),
        initial_state=record.initial_state,
        success_check=record.success_check,
        category=clip(record.category, 100),
        difficulty=clip(record.difficulty, 50),
        held_out=record.held_out,
    )


def _policy_ids(workspace_id: UUID, names: set[str]) -> dict[str, UUID]:
    """The ids of the policies of these names; one that is not known yet is known by its name only."""
    found = dict(Policy.objects.filter(workspace_id=workspace_id, name__in=names).values_list("name", "id"))
    missing = sorted(names - found.keys())
    if missing:
        Policy.objects.bulk_create(
            [Policy(workspace_id=workspace_id, name=name, kind=Policy.Kind.EXTERNAL) for name in missing],
            ignore_conflicts=True,
        )
        found |= dict(Policy.objects.filter(workspace_id=workspace_id, name__in=missing).values_list("name", "id"))
    return found
