"""Stopping a run and taking it up again."""

from functools import partial

from django.db import transaction
from django.utils.timezone import now

from apps.accounts import auditing
from apps.accounts.models import User
from apps.training.claiming import queue
from apps.training.live import show
from apps.training.models import Run, RunEvent


class NotActive(Exception):
    """There is nothing to cancel: the run has ended, or is being cancelled already."""

    def __init__(self, run: Run) -> None:
        super().__init__(
            f"This run is {run.get_state_display().lower()}; only a queued or running one can be cancelled."
        )


class NotResumable(Exception):
    """Only a run that was cancelled or failed can be taken up again."""

    def __init__(self, run: Run) -> None:
        super().__init__(
            f"This run is {run.get_state_display().lower()}; only a cancelled or failed one can be resumed."
        )


@transaction.atomic
def cancel_run(*, run: Run, by: User) -> Run:
    """Ask for the end of a run: at once if no worker has it, else after the worker has saved a checkpoint.

    Raises NotActive when it is over, or somebody else was faster.
    """
    mine = Run.objects.filter(pk=run.pk)
    if mine.filter(state=Run.State.QUEUED).update(state=Run.State.CANCELLED, finished_at=now(), leased_until=None):
        text = f"Cancelled by {by} before it began."
    elif mine.filter(state__in=[Run.State.STARTING, Run.State.RUNNING]).update(state=Run.State.CANCELLING):
        text = f"{by} asked it to stop."
    else:
        run.refresh_from_db()
        raise NotActive(run)
    RunEvent.objects.create(run=run, kind="cancelling", text=text)
    _record(run, by, "cancelled a run")
    run.refresh_from_db()
    return run


@transaction.atomic
def resume_run(*, run: Run, by: User) -> Run:
    """Queue a cancelled or failed run again; it goes on from its last checkpoint. Raises NotResumable."""
    resumed = Run.objects.filter(pk=run.pk, state__in=Run.RESUMABLE).update(
        state=Run.State.QUEUED,
        queued_at=now(),
        failure={},
        losses=0,
        finished_at=None,
        worker="",
        process_id=None,
    )
    run.refresh_from_db()
    if not resumed:
        raise NotResumable(run)
    where = f"from step {run.checkpoint_step}" if run.checkpoint_step else "from the beginning"
    RunEvent.objects.create(run=run, kind="resumed", text=f"Resumed by {by}, {where}.")
    _record(run, by, "resumed a run")
    queue(run)
    return run


def _record(run: Run, by: User, action: str) -> None:
    transaction.on_commit(partial(show, run.pk), robust=True)
    auditing.record(workspace=run.workspace, actor=by, action=action, subject=run.name, about=run)
