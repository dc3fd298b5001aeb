"""Files for import tests."""

import io
import json

import pytest

from apps.accounts.models import Workspace
from apps.ingest.files.source import UnreadableFile, open_source
from apps.trajectories.imports.import_job import run_import
from apps.trajectories.imports.upload import start_import, store
from apps.trajectories.models import ImportBatch
from tests import factories

MOST = 1 << 30
"""In bytes, more than any file here has."""


def lines(*rows: object) -> bytes:
    """JSON Lines."""
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


def rows_of(body: bytes) -> list[dict[str, object]]:
    """The records in a file."""
    return [json.loads(row.body) for row in open_source(io.BytesIO(body), most_bytes=MOST).rows(limit=MOST)]


def refused(body: bytes, *, most: int = MOST) -> str:
    """The error message for a file that can't be read completely."""
    with pytest.raises(UnreadableFile) as error:
        list(open_source(io.BytesIO(body), most_bytes=most).rows(limit=MOST))
    return str(error.value)


def upload(body: bytes, workspace: Workspace | None = None, name: str = "file.jsonl", **more: str) -> ImportBatch:
    """A stored file waiting to be imported."""
    stored = store(io.BytesIO(body), filename=name)
    home = workspace or factories.workspace()
    return start_import(workspace_id=home.pk, stored=stored, created_by=None, queue=False, **more)


def imported(body: bytes, workspace: Workspace | None = None, name: str = "file.jsonl", **more: str) -> ImportBatch:
    """A file whose import has ended, successfully or not."""
    batch = run_import(upload(body, workspace, name, **more).pk, watch=ignore)
    assert batch is not None
    return batch


def ignore(batch: ImportBatch) -> None:
    """A progress callback that does nothing."""


def rich(number: int, steps: int = 2, said: str = "", **more: object) -> dict[str, object]:
    """A row of Retrace's own format."""
    step = {
        "context": [{"role": "user", "content": f"{number}{said}"}],
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
    """Numbers of trajectories, steps, duplicates, and rejected rows."""
    return batch.trajectory_count, batch.step_count, batch.duplicate_count, batch.rejected_count
