"""manage.py import_trajectories: the same import as in the browser and the API, run in this process."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q
from django.utils.text import slugify

from apps.accounts.models import Workspace
from apps.jobs.models import JobState, lease
from apps.trajectories.imports.import_job import run_import
from apps.trajectories.imports.upload import FileTooLarge, drop, start_import, store, unfinished_import
from apps.trajectories.models import ImportBatch


class Command(BaseCommand):
    help = (
        "Import trajectory files (JSON Lines, JSON, and .traj, also gzipped; .eval; Parquet). The format is detected. Waits until the end, and prints "
        "one JSON object per file: file, format, trajectories, tasks, steps, duplicates, outcomes (of trajectories that existed before), rejected, warnings "
        "(and error, if the file was refused). Records imported before are counted as duplicates and not added again. "
        "Run a killed command again to resume it. Needs no worker. Exits with 1 if nothing in a file could be read."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE")
        parser.add_argument(
            "--workspace",
            metavar="NAME",
            help="Name or slug of the workspace; by default the oldest one. Created if there is no workspace at all.",
        )
        parser.add_argument("--policy", metavar="NAME", default="", help="Policy of trajectories that don't name one.")
        parser.add_argument("--json", action="store_true", help="Print nothing but the JSON objects: no progress.")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = _workspace(options["workspace"])
        results = [
            self._import(Path(name), workspace, options["policy"], quiet=options["json"]) for name in options["files"]
        ]
        if any("error" in result or _holds_nothing(result) for result in results):
            sys.exit(1)

    def _import(self, path: Path, workspace: Workspace, policy: str, *, quiet: bool) -> dict[str, Any]:
        try:
            batch = self._batch(path, workspace, policy)
        except IsADirectoryError:
            reason = f"This is a folder. Name the files in it, as in {path}/*.json."
            result: dict[str, Any] = {"file": str(path), "format": "", **_counts(None), "error": reason}
        except (OSError, FileTooLarge) as error:
            reason = f"{error.strerror}." if isinstance(error, OSError) and error.strerror else str(error)
            result = {"file": str(path), "format": "", **_counts(None), "error": reason}
        else:
            with _Progress(path.name, self.stderr if not quiet else None) as progress:
                batch = _run(batch, progress)
            result = {"file": str(path), "format": batch.format, **_counts(batch)}
            if batch.state != JobState.DONE:
                result["error"] = batch.error or f"The import was {batch.get_state_display().lower()}."
        self.stdout.write(json.dumps(result, ensure_ascii=False))
        return result

    def _batch(self, path: Path, workspace: Workspace, policy: str) -> ImportBatch:
        """A new batch for the file, or the one that was importing it when its process was killed."""
        with path.open("rb") as file:
            stored = store(file, filename=path.name)
        unfinished = unfinished_import(workspace_id=workspace.pk, sha256=stored.sha256)
        if unfinished:
            drop(stored)
            return unfinished
        return start_import(workspace_id=workspace.pk, stored=stored, created_by=None, policy_name=policy, queue=False)


def _workspace(name: str | None) -> Workspace:
    workspaces = Workspace.objects.order_by("created_at", "pk")
    matches = workspaces.filter(Q(slug=name) | Q(name=name)) if name else workspaces
    workspace = matches.first()
    if workspace is not None:
        return workspace
    if slugs := list(workspaces.values_list("slug", flat=True)[:20]):
        raise CommandError(f"There is no workspace {name!r}. Known: {', '.join(slugs)}.")
    name = name or "Workspace"
    return Workspace.objects.create(name=name[:100], slug=slugify(name)[:100] or "workspace")


def _run(batch: ImportBatch, progress: _Progress) -> ImportBatch:
    """Import it here, or wait for the worker that has it and take over if that one dies."""
    while True:
        done = run_import(batch.pk, watch=progress.show)
        if done is not None:
            return done
        batch.refresh_from_db()
        if not batch.is_active:
            return batch
        progress.show(batch)
        time.sleep(min(1.0, lease().total_seconds() / 4))


def _counts(batch: ImportBatch | None) -> dict[str, int]:
    return {
        "trajectories": batch.trajectory_count if batch else 0,
        "tasks": (batch.task_count or 0) if batch else 0,
        "steps": batch.step_count if batch else 0,
        "duplicates": batch.duplicate_count if batch else 0,
        "outcomes": batch.outcome_count if batch else 0,
        "rejected": batch.rejected_count if batch else 0,
        "warnings": batch.warning_count if batch else 0,
    }


def _holds_nothing(result: dict[str, Any]) -> bool:
    return bool(result["rejected"]) and not (result["trajectories"] or result["duplicates"] or result["outcomes"])


class _Progress:
    """One line, rewritten as the import progresses; if the output isn't a terminal, only a line at the end."""

    def __init__(self, name: str, out: Any | None) -> None:
        self._name = name
        self._out = out
        self._began = time.monotonic()
        self._first_step: int | None = None
        self._is_terminal = out is not None and out.isatty()
        self._line = ""

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._out is not None and self._line:
            self._out.write(self._line if not self._is_terminal else "")

    def show(self, batch: ImportBatch) -> None:
        if self._out is None:
            return
        if self._first_step is None:
            self._first_step = batch.step_count
        elapsed = time.monotonic() - self._began
        rate = (batch.step_count - self._first_step) / elapsed if elapsed > 0.5 else 0
        share = f"{100 * batch.bytes_read // batch.size} %" if batch.size else ""
        bad = f", {batch.rejected_count:,} rejected" if batch.rejected_count else ""
        duplicates_text = f", {batch.duplicate_count:,} known already" if batch.duplicate_count else ""
        pace = f", {rate:,.0f} steps/s" if rate else ""
        self._line = f"{self._name}: {share:>5} · {batch.trajectory_count:,} trajectories, {batch.step_count:,} steps{duplicates_text}{bad}{pace}"
        if self._is_terminal:
            self._out.write(f"\r\x1b[K{self._line}", ending="")
