"""A training run as a child job. Its data files are the frozen version's, byte for byte."""

import hashlib
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
from contract.configs import GrpoConfig, RlooConfig, TrainingConfig, write_run_config
from contract.events import StampedEvent
from contract.tracking import read_tracking, write_tracking
from trainer.failures import DataFailure
from workers.bridge.child_job import ChildJob
from workers.bridge.configs import training_config
from workers.bridge.event_digest import digest
from workers.bridge.forecasts import holds_out
from workers.bridge.outcomes import Outcome
from workers.bridge.preflight import refuse_what_cannot_work
from workers.bridge.runner_episodes import RunnerEpisodes
from workers.bridge.runner_tasks import with_tasks_of_workspace
from workers.bridge.stopwatch import Stopwatch, evaluations_ahead


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
        """None if there is no held-out data to evaluate on."""

    def prepare(self) -> None:
        self.show()
        version = self.job.version
        splits = (Split.TRAIN, Split.VALIDATION) if version else ()
        files = {split.value: copy_split(version, split, self.folder.path) for split in splits if version}
        config = training_config(self.job, files=files)
        assert isinstance(config, TrainingConfig), "runs are trained"
        if isinstance(config, GrpoConfig | RlooConfig) and config.played_by == "runners":
            config = with_tasks_of_workspace(config, self.folder.path, workspace_id=self.job.workspace_id)
            self._episodes = RunnerEpisodes(self.job, self.folder.path)
            self._episodes.begin()
        forecast = refuse_what_cannot_work(config, self.folder, version=version, base=self.job.base)
        seconds = None if forecast.high is None or forecast.low is None else (forecast.low + forecast.high) / 2
        lifecycle.write(self.job, expected_seconds=seconds, expected_because=forecast.words if seconds else "")
        if holds_out(config, version):
            self._evaluates_every = config.evaluate_every
        if config.tracker != "none":
            self._describe_to_tracker()
        write_run_config(config, self.folder.config)

    def _describe_to_tracker(self) -> None:
        """Write the run's name and page URL. The tracker's own id may already be there from an earlier attempt."""
        page = f"{settings.SITE_URL}{reverse('training:run', args=[self.job.pk])}" if settings.SITE_URL else ""
        known = read_tracking(self.folder.path)
        write_tracking(replace(known, name=self.job.name, page=page), self.folder.path)

    def attend(self) -> None:
        if self._episodes is not None:
            self._episodes.attend()

    def conclude(self, outcome: Outcome, *, handed_back: bool) -> None:
        if self._episodes is not None:
            self._episodes.close()
        super().conclude(outcome, handed_back=handed_back)

    def started(self, process_id: int) -> None:
        lifecycle.write(self.job, process_id=process_id, command=self.folder.command_line)

    def absorb(self, events: Sequence[StampedEvent], offset: int) -> None:
        news = digest(events, after=self._seq, offset=offset)
        if news is None:
            return
        progress.apply(run=self.job, news=self._timed(news, events))
        self._seq = news.seq
        if news.began:
            self.show()
        self.show_now_and_then()

    def _timed(self, news: progress.News, events: Sequence[StampedEvent]) -> progress.News:
        measured, every = self._stopwatch.update(events), self._evaluates_every
        if news.step is not None and news.total_steps is not None and every is not None:
            ahead = evaluations_ahead(every, step=news.step, total=news.total_steps)
            news = replace(news, evaluations_ahead=ahead)
        return replace(
            news,
            step_seconds=measured.step,
            evaluation_seconds=measured.evaluation,
        )

    def pulse(self) -> bool:
        phase = lifecycle.renew(self.job)
        if phase != self._phase:
            self._phase = phase
            self.show()
        self.show_now_and_then()
        return phase == Phase.STOPPING

    def keep(self, report: dict[str, Any]) -> None:
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
    stored = version.files["jsonl"][split.value]
    target = folder / f"{split.value}.jsonl"
    if target.exists() and _sha256(target) == stored["sha256"]:
        return target.name  # an earlier attempt's copy
    part = target.with_suffix(".part")
    digest = hashlib.sha256()
    try:
        with default_storage.open(stored["name"], "rb") as source, part.open("wb") as copy:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
    except FileNotFoundError:
        raise DataFailure(
            f"The {split.label.lower()} file of {version} is not in the file storage ({stored['name']}).",
            advice="Restore the storage from a backup, or freeze a new version and launch the run on that.",
        ) from None
    if digest.hexdigest() != stored["sha256"]:
        part.unlink()
        raise _corrupted(version, split, stored, digest.hexdigest())
    os.replace(part, target)
    return target.name


def _corrupted(version: Version, split: Split, stored: dict[str, Any], found: str) -> DataFailure:
    return DataFailure(
        f"The {split.label.lower()} file of {version} has changed since it was frozen: its SHA-256 is {found[:12]}…, "
        f"expected {stored['sha256'][:12]}….",
        advice=f"Restore {stored['name']} from a backup, or freeze a new version and launch the run on that. "
        "Nothing was trained.",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
