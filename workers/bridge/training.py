"""A training run as the supervisor's job."""

import time
from collections.abc import Sequence

from apps.common.live import telling
from apps.datasets.models import Split
from apps.training import claiming, live, progress, recovering
from apps.training.folders import folder_of, last_lines
from apps.training.models import Run
from contract.configs import TrainingConfig, write_run_config
from trainer.events import StampedEvent
from workers.bridge.configs import training_config
from workers.bridge.digesting import digest
from workers.bridge.materialising import materialise
from workers.bridge.outcomes import Outcome
from workers.bridge.preflight import refuse_what_cannot_work

SHOW_EVERY_SECONDS = 1.0


class TrainingJob:
    """One attempt at a run that this worker has claimed."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.folder = folder_of(run.pk)
        self.events_offset = run.events_offset
        self._seq = run.events_seq
        self._state = Run.State(run.state)
        self._shown_at = 0.0

    def prepare(self) -> None:
        self._show()
        version = self.run.version
        splits = (Split.TRAIN, Split.VALIDATION) if version else ()
        files = {split.value: materialise(version, split, self.folder.path) for split in splits if version}
        config = training_config(self.run, files=files)
        assert isinstance(config, TrainingConfig), "runs are trained"
        refuse_what_cannot_work(config, self.folder, version=version)
        write_run_config(config, self.folder.config)

    def started(self, process_id: int) -> None:
        claiming.note_process(self.run, process_id=process_id, command=self.folder.command_line)

    def absorb(self, events: Sequence[StampedEvent], offset: int) -> None:
        news = digest(events, after=self._seq, offset=offset)
        if news is None:
            return
        progress.apply(run=self.run, news=news)
        self._seq = news.seq
        if news.began or time.monotonic() - self._shown_at > SHOW_EVERY_SECONDS:
            self._show()

    def pulse(self) -> bool:
        state = claiming.renew(self.run)
        if state != self._state or time.monotonic() - self._shown_at > SHOW_EVERY_SECONDS:
            self._state = state
            self._show()
        return state == Run.State.CANCELLING

    def conclude(self, outcome: Outcome, *, handed_back: bool) -> None:
        match outcome.kind:
            case "finished":
                progress.finish(run=self.run, report=outcome.report)
            case "cancelled" if handed_back:
                claiming.release(self.run, reason="Its worker is shutting down; the next one goes on from here.")
            case "cancelled":
                progress.stop(run=self.run, text=outcome.message)
            case "silent":
                recovering.give_up_attempt(run=self.run, reason=outcome.message)
            case "failed":
                progress.fail(run=self.run, failure=self._failure(outcome))
        self._show()

    def _failure(self, outcome: Outcome) -> progress.Failure:
        return progress.Failure(
            category=outcome.category,
            message=outcome.message,
            advice=outcome.advice,
            details=outcome.details,
            log=last_lines(self.folder),
            command=self.folder.command_line,
        )

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        with telling(self.run.pk):
            live.show(self.run.pk)
