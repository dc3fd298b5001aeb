"""Training runs as jobs: what the engine must know of them."""

from django.db import transaction
from django.urls import reverse

from apps.jobs.kinds import Event, Kind, register
from apps.training.live import show
from apps.training.models import Run, RunEvent

TASK = "training.run"


def _write_down(run: Run, event: Event) -> None:
    """Put it on the run's timeline, and show it to those who look at the run."""
    if event.text:
        RunEvent.objects.create(run=run, kind=event.kind, text=event.text)
    transaction.on_commit(lambda: show(run.pk), robust=True)


RUNS = register(
    Kind(
        name="training_runs",
        noun="training run",
        label="Training run",
        model=Run,
        task=lambda run: TASK,
        title=lambda run: run.name,
        url=lambda run: reverse("training:run", args=[run.pk]),
        on_event=_write_down,
        related=("version__dataset", "base__endpoint", "workspace"),
        afresh={"running_since": None},
        is_cancellable=True,
        is_resumable=True,
    )
)
