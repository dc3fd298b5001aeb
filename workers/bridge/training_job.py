"""A training run as the supervisor's job."""

from collections.abc import Sequence
from typing import Any

from apps.datasets.models import Split
from apps.jobs import lifecycle
from apps.jobs.models import Phase
from apps.training import live, progress
from apps.training.models import Run
from contract.configs import TrainingConfig, write_run_config
from contract.events import StampedEvent
from workers.bridge.child_job import ChildJob
from workers.bridge.configs import training_config
from workers.bridge.event_digest import digest
from workers.bridge.preflight import refuse_what_cannot_work
from workers.bridge.version_files import materialise


class TrainingJob(ChildJob[Run]):
    """One attempt at a run that this worker has claimed."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.events_offset = run.events_offset
        self._seq = run.events_seq
        self._phase = run.phase

    def prepare(self) -> None:
        self.show()
        version = self.job.version
        splits = (Split.TRAIN, Split.VALIDATION) if version else ()
        files = {split.value: materialise(version, split, self.folder.path) for split in splits if version}
        config = training_config(self.job, files=files)
        assert isinstance(config, TrainingConfig), "runs are trained"
        refuse_what_cannot_work(config, self.folder, version=version)
        write_run_config(config, self.folder.config)

    def started(self, process_id: int) -> None:
        lifecycle.write(self.job, process_id=process_id, command=self.folder.command_line)

    def absorb(self, events: Sequence[StampedEvent], offset: int) -> None:
        news = digest(events, after=self._seq, offset=offset)
        if news is None:
            return
        progress.apply(run=self.job, news=news)
        self._seq = news.seq
        if news.began:
            self.show()
        self.show_now_and_then()

    def pulse(self) -> bool:
        phase = lifecycle.renew(self.job)
        if phase != self._phase:
            self._phase = phase
            self.show()
        self.show_now_and_then()
        return phase == Phase.STOPPING

    def keep(self, report: dict[str, Any]) -> None:
        progress.finish(run=self.job, report=report)

    def tell(self) -> None:
        live.show(self.job.pk)
