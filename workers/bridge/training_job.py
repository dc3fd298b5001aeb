"""A training run as a child job. Its data files are the frozen version's, byte for byte."""

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.storage import default_storage
from django.urls import reverse

from apps.datasets.models import Split, Version
from apps.jobs import lifecycle
from apps.jobs.models import Phase
from apps.training import live, progress
from apps.training.models import Run
from contract.configs import GrpoConfig, OnlineConfig, RlooConfig, StarConfig, TrainingConfig, write_run_config
from contract.events import StampedEvent
from contract.tracking import read_tracking, write_tracking
from trainer.failures import DataFailure
from workers.bridge.child_job import ChildJob
from workers.bridge.configs import training_config
from workers.bridge.event_digest import digest
from workers.bridge.forecasts import holds_out
from workers.bridge.left_out_tasks import leave_out_tested_tasks
from workers.bridge.outcomes import Outcome
from workers.bridge.preflight import check_feasibility
from workers.bridge.runner_episodes import RunnerEpisodes
from workers.bridge.runner_tasks import with_tasks_of_workspace
from workers.bridge.stopwatch import Stopwatch, remaining_evaluations


class TrainingJob(ChildJob[Run]):
    """One attempt at a run that this worker has claimed."""

    niceness = 10
    """On a shared CPU, pages and interactive work have priority."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.events_offset = run.events_offset
        self._seq = run.events_seq
        self._phase = run.phase
        self._stopwatch = Stopwatch()
        self._episodes: RunnerEpisodes | None = None
        self._evaluates_every: int | None = None
        """Steps between evaluations; None if there is no held-out data to evaluate on."""

    def prepare(self) -> None:
        self.refresh_pages()
        version = self.job.version
        splits = (Split.TRAIN, Split.VALIDATION) if version else ()
        files = {split.value: copy_split(version, split, self.folder.path) for split in splits if version}
        config = training_config(self.job, files=files)
        assert isinstance(config, TrainingConfig), "runs are trained"
        if isinstance(config, GrpoConfig | RlooConfig) and config.played_by == "runners":
            config = with_tasks_of_workspace(config, self.folder.path, workspace_id=self.job.workspace_id)
            self._episodes = RunnerEpisodes(self.job, self.folder.path)
            self._episodes.begin()
        if isinstance(config, OnlineConfig | StarConfig):
            leave_out_tested_tasks(config.tasks.environment, self.folder.path, workspace_id=self.job.workspace_id)
        forecast = check_feasibility(config, self.folder, version=version, base=self.job.base)
        seconds = None if forecast.high is None or forecast.low is None else (forecast.low + forecast.high) / 2
        if seconds is not None and not math.isfinite(seconds):
            seconds = None
        lifecycle.write(self.job, expected_seconds=seconds, expected_because=forecast.basis if seconds else "")
        if holds_out(config, version):
            self._evaluates_every = config.evaluate_every
        if config.tracker != "none":
            self._describe_to_tracker()
        write_run_config(config, self.folder.config)

    def _describe_to_tracker(self) -> None:
        """Write the run's name and page URL. The tracker's own id may already be there from an earlier attempt."""
        page = f"{settings.SITE_URL}{reverse('training:run', args=[self.job.pk])}" if settings.SITE_URL else ""
        tracking = read_tracking(self.folder.path)
        write_tracking(replace(tracking, name=self.job.name, page=page), self.folder.path)

    def serve_requests(self) -> None:
        if self._episodes is not None:
            self._episodes.serve_requests()

    def record_outcome(self, outcome: Outcome, *, released: bool) -> None:
        if self._episodes is not None:
            self._episodes.close()
        super().record_outcome(outcome, released=released)

    def handle_events(self, events: Sequence[StampedEvent], offset: int) -> None:
        update = digest(events, after=self._seq, offset=offset)
        if update is None:
            return
        progress.apply(run=self.job, update=self._with_timings(update, events))
        self._seq = update.seq
        if update.began:
            self.refresh_pages()
        self.refresh_pages_if_due()

    def _with_timings(self, update: progress.RunUpdate, events: Sequence[StampedEvent]) -> progress.RunUpdate:
        timings, every = self._stopwatch.update(events), self._evaluates_every
        if update.step is not None and update.total_steps is not None and every is not None:
            remaining = remaining_evaluations(every, step=update.step, total=update.total_steps)
            update = replace(update, evaluations_ahead=remaining)
        return replace(
            update,
            step_seconds=timings.step,
            evaluation_seconds=timings.evaluation,
        )

    def renew_lease(self) -> bool:
        phase = lifecycle.renew(self.job)
        if phase != self._phase:
            self._phase = phase
            self.refresh_pages()
        self.refresh_pages_if_due()
        return phase == Phase.STOPPING

    def store_results(self, report: dict[str, Any]) -> None:
        progress.finish(run=self.job, report=report)

    def update_pages(self) -> None:
        live.show(self.job.pk)


CHUNK_BYTES = 1024 * 1024


def copy_split(version: Version, split: Split, folder: Path) -> str | None:
    """Copy one split to `<split>.jsonl` in `folder`; returns its name, or None if the version has no such rows.

    Raises DataFailure if the file is missing or differs from what was frozen.
    """
    if not version.row_counts.get(split.value):
        return None
    file_record = version.files["jsonl"][split.value]
    target = folder / f"{split.value}.jsonl"
    if target.exists() and _sha256(target) == file_record["sha256"]:
        return target.name  # an earlier attempt's copy
    part = target.with_suffix(".part")
    digest = hashlib.sha256()
    try:
        with default_storage.open(file_record["name"], "rb") as source, part.open("wb") as copy:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
    except FileNotFoundError:
        raise DataFailure(
            f"The {split.label.lower()} file of {version} is not in the file storage ({file_record['name']}).",
            advice="Restore the storage from a backup, or freeze a new version and launch the run on that.",
        ) from None
    if digest.hexdigest() != file_record["sha256"]:
        part.unlink()
        raise _corrupted(version, split, file_record, digest.hexdigest())
    os.replace(part, target)
    return target.name


def _corrupted(version: Version, split: Split, file_record: dict[str, Any], actual: str) -> DataFailure:
    return DataFailure(
        f"The {split.label.lower()} file of {version} has changed since it was frozen: its SHA-256 is {actual[:12]}…, "
        f"expected {file_record['sha256'][:12]}….",
        advice=f"Restore {file_record['name']} from a backup, or freeze a new version and launch the run on that. "
        "Nothing was trained.",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
