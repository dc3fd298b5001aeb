"""Makes a record ready to be written: hashed, outlined, and encoded for COPY in PostgreSQL's binary form.

None of it needs the database, so it happens outside the transaction, in a thread of its own.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import zstandard

from apps.common.ids import new_id
from apps.trajectories.comparison import actions
from apps.trajectories.outlines import Outline, clip, outline
from contract import jsontext
from contract.trajectory import Task as TaskRecord
from contract.trajectory import Trajectory as TrajectoryRecord
from contract.values import number

COMPRESSION = 1
"""zstd's level for originals: on logs, higher levels cost several times as much for a tenth less."""

_of_thread = threading.local()
"""Each thread's compressor: one that two imports use at once gives errors and worse."""

STEP_COLUMNS = (
    *("trajectory_id", "index", "is_error", "done", "context_chars", "result_chars"),
    *("reward", "seconds", "prompt_tokens", "completion_tokens"),
    *("kind", "tool", "headline", "result", "action", "context", "message", "info"),
)

_NULL = struct.pack("!i", -1)
_STEP_FIXED = struct.Struct("!h i16s ii i? i? ii ii")
_ORIGINAL_FIXED = struct.Struct("!h i16s i")
_length = struct.Struct("!i").pack
_float8 = struct.Struct("!id").pack
_int4 = struct.Struct("!ii").pack
_EMPTY_OBJECT = _length(2) + b"{}"


@dataclass(slots=True)
class Prepared:
    """A record ready to be written: its light columns, and the rest encoded."""

    id: UUID
    task: TaskRecord
    policy: str | None
    columns: dict[str, Any]
    steps: bytes
    original: bytes
    verdict: bool | None = None
    """Whether a report beside the run says that it was a success, where the run itself does not say. No part of its content."""

    @property
    def size(self) -> int:
        return len(self.steps) + len(self.original)


def prepare(record: TrajectoryRecord, original: bytes, verdict: bool | None = None) -> Prepared:
    """Hash, outline and encode one record. Raises UnreadableJSON where it is nested too deeply to be kept."""
    identifier = new_id()
    outlines = outline(record)
    acted = acted_in(record)
    spent = [step.seconds for step in record.steps if step.seconds is not None]
    written = [step.completion_tokens for step in record.steps if step.completion_tokens is not None]
    return Prepared(
        id=identifier,
        task=record.task,
        policy=clip(record.policy, 200) if record.policy else None,
        columns={
            "external_id": clip(record.id, 300),
            "reward": record.reward,
            "success": record.success,
            "termination": clip(record.termination, 100),
            "step_count": len(record.steps),
            "error_count": sum(line.is_error for line in outlines),
            "token_count": sum(written) if written else None,
            "seconds": sum(spent) if spent else number(record.info.get("seconds")),
            "tags": [clip(tag, 100) for tag in record.tags],
            "tools": jsontext.dumps(record.tools).decode(),
            "closing": jsontext.dumps(record.closing).decode(),
            "info": jsontext.dumps(record.info).decode(),
            "content_hash": record.content_hash(),
            "course": actions.course_of(record, acted),
        },
        steps=_encode_steps(identifier.bytes, record, outlines, acted),
        original=_encode_original(identifier.bytes, original),
        verdict=verdict,
    )


def acted_in(record: TrajectoryRecord) -> list[bytes]:
    """The digest of what each step did."""
    return [actions.digest_of(step.message, step.info) for step in record.steps]


def unpack_original(body: bytes | memoryview) -> bytes:
    """The record as it was given, from `Original.body`."""
    # The size stands in the frame's header: written by `prepare`, never by an uploader.
    return zstandard.ZstdDecompressor().decompress(bytes(body))


def _encode_steps(identifier: bytes, record: TrajectoryRecord, outlines: list[Outline], acted: list[bytes]) -> bytes:
    parts: list[bytes] = []
    columns = len(STEP_COLUMNS)
    for index, (step, line, act) in enumerate(zip(record.steps, outlines, acted, strict=True)):
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
        parts += (_length(actions.DIGEST_BYTES), act)
        parts += (_length(len(context)), context, _length(len(message)), message)
        if info:
            encoded = jsontext.dumps(info)
            parts += (_length(len(encoded)), encoded)
        else:
            parts.append(_EMPTY_OBJECT)
    return b"".join(parts)


def _encode_original(identifier: bytes, original: bytes) -> bytes:
    compressor = getattr(_of_thread, "compressor", None)
    if compressor is None:
        compressor = _of_thread.compressor = zstandard.ZstdCompressor(level=COMPRESSION)
    body = compressor.compress(original)
    return _ORIGINAL_FIXED.pack(2, 16, identifier, len(body)) + body
