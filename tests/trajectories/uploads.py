"""Files for tests of imports."""

import io
import json

import pytest

from apps.accounts.models import Workspace
from apps.ingest.files.source import UnreadableFile, open_source
from apps.trajectories.imports.import_job import run_import
from apps.trajectories.imports.upload import start_import, store
from apps.trajectories.models import ImportBatch
from tests import factories

MAX_BYTES = 1 << 30
"""Larger than any file here."""


def lines(*rows: object) -> bytes:
    """JSON Lines."""
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


def rows_of(body: bytes) -> list[dict[str, object]]:
    """The records in a file."""
    return [json.loads(row.body) for row in open_source(io.BytesIO(body), most_bytes=MAX_BYTES).rows(limit=MAX_BYTES)]


def refused(body: bytes, *, most: int = MAX_BYTES) -> str:
    """The message with which reading a file to its end is refused."""
    with pytest.raises(UnreadableFile) as error:
        list(open_source(io.BytesIO(body), most_bytes=most).rows(limit=MAX_BYTES))
    return str(error.value)


def upload(body: bytes, workspace: Workspace | None = None, name: str = "file.jsonl", **more: str) -> ImportBatch:
    """A stored file waiting to be imported."""
    stored = store(io.BytesIO(body), filename=name)
    home = workspace or factories.workspace()
    return start_import(workspace_id=home.pk, stored=stored, created_by=None, queue=False, **more)


def imported(body: bytes, workspace: Workspace | None = None, name: str = "file.jsonl", **more: str) -> ImportBatch:
    """A file imported to its end, whatever the result."""
    batch = run_import(upload(body, workspace, name, **more).pk, watch=ignore)
    assert batch is not None
    return batch


def ignore(batch: ImportBatch) -> None:
    """Watches nothing."""


def rich(number: int, steps: int = 2, suffix: str = "", **more: object) -> dict[str, object]:
    """A row of Retrace's own format."""
    step = {
        "context": [{"role": "user", "content": f"{number}{suffix}"}],
        "message": {"role": "assistant", "content": "ok"},
    }
    return {
        "format": "retrace/1",
        "id": f"r{number}",
        "task": {"key": f"k{number % 3}"},
        "steps": [step] * steps,
        **more,
    }


def counts(batch: ImportBatch) -> tuple[int, int, int, int]:
    """Trajectories, steps, duplicates and rejected rows."""
    return batch.trajectory_count, batch.step_count, batch.duplicate_count, batch.rejected_count
