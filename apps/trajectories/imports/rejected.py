"""Exports the rejected rows of an import: location, reason, what was expected, and how the row begins."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import NamedTuple

import orjson

from apps.common.downloads import in_pages
from apps.trajectories.models import ImportBatch

COLUMNS = ("line", "reason", "expected", "excerpt")
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""Prefixes of cells that a spreadsheet would evaluate."""


class Form(NamedTuple):
    """An export format."""

    content_type: str
    parts: Callable[[ImportBatch], Iterator[str | bytes]]


def _rows(batch: ImportBatch) -> Iterator[tuple[int, str, str, str]]:
    rows = in_pages(batch.rejected_rows.all(), by="position", size=1000)
    yield from ((row.line, row.reason, row.expected, row.excerpt) for row in rows)


def _csv(batch: ImportBatch) -> Iterator[str | bytes]:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for row in _rows(batch):
        writer.writerow([_inert(cell) if isinstance(cell, str) else cell for cell in row])
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def _inert(cell: str) -> str:
    """Keep a cell from being evaluated as a formula: it's untrusted data."""
    return f"'{cell}" if cell.startswith(FORMULAS) else cell


def _jsonl(batch: ImportBatch) -> Iterator[str | bytes]:
    for row in _rows(batch):
        yield orjson.dumps(dict(zip(COLUMNS, row, strict=True))) + b"\n"


FORMS = {
    "csv": Form("text/csv; charset=utf-8", _csv),
    "jsonl": Form("application/x-ndjson", _jsonl),
}
