"""Uploads files and rows to import."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from retrace.core.flow import Flow, work
from retrace.core.replies import parsed
from retrace.core.request import IDEMPOTENCY_KEY, OnProgress, Request, Upload
from retrace.core.retries import Retries, exchange
from retrace.models.imports import Import

Source = str | os.PathLike[str] | Iterable[Mapping[str, Any]]


def import_source(
    source: Source,
    *,
    filename: str | None,
    policy: str | None,
    idempotency_key: str | None,
    retries: Retries,
    progress: OnProgress | None,
) -> Flow[Import]:
    """Upload a file, or rows as JSON Lines."""
    if isinstance(source, (str, os.PathLike)):
        file = Path(source)
        return (yield from _send(file, filename or file.name, policy, idempotency_key, retries, progress))
    # Rows may come from a generator, which can be read only once; a file can be resent after an error.
    rows = source
    file = yield from work(lambda: _written(rows))
    try:
        return (yield from _send(file, filename or "rows.jsonl", policy, idempotency_key, retries, progress))
    finally:
        with suppress(FileNotFoundError):
            file.unlink()


def _send(
    file: Path, filename: str, policy: str | None, key: str | None, retries: Retries, progress: OnProgress | None
) -> Flow[Import]:
    request = Request(
        "POST",
        "/imports",
        {"filename": filename, "policy": policy},
        headers={IDEMPOTENCY_KEY: key or str(uuid4())},
        upload=Upload(file, progress),
        is_remembered=True,
    )
    return parsed(request, (yield from exchange(request, retries)), Import)


def _written(rows: Iterable[Mapping[str, Any]]) -> Path:
    """The rows in a temporary file, one per line."""
    handle, name = tempfile.mkstemp(prefix="retrace-rows-", suffix=".jsonl")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            for row in rows:
                target.write(json.dumps(dict(row)) + "\n")
    except BaseException:
        os.unlink(name)
        raise
    return Path(name)
