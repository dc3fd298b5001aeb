"""Real files, read like an import but without the database."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from apps.ingest.records import BadRow, TrajectoryRecord
from apps.ingest.upload import recognize_file
from apps.trajectories.outlines import outline
from contract import jsontext


class RealFile(NamedTuple):
    format: str
    records: list[TrajectoryRecord]
    rejected: list[str]


@pytest.fixture
def real_file(real_data: Callable[[str], Path]) -> Callable[[str], RealFile]:
    """Reads a file of trajectories by others; skips the test if it's missing."""

    def read(path: str) -> RealFile:
        path_ = real_data(path)
        with path_.open("rb") as file:
            _, rows, format = recognize_file(file)
            records, rejected = [], []
            for row in rows:
                try:
                    assert row.problem == ""
                    records += format.read(jsontext.loads(row.body), path_.name)
                except BadRow as refusal:
                    rejected.append(refusal.reason)
        for record in records:
            assert len(outline(record)) == len(record.steps)
        return RealFile(format.name, records, rejected)

    return read
