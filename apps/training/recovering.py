"""Runs whose worker vanished. `leases.expire` calls `recover_runs` every few seconds."""

from functools import partial

from django.db import transaction
from django.utils.timezone import now

from apps.common.leases import Superseded
from apps.training.claiming import queue
from apps.training.live import show
from apps.training.models import Run, RunEvent, RunQuerySet
from apps.training.progress import Failure

MAX_LOSSES = 3


def recover_runs() -> list[Run]:
    """Give orphaned runs to other workers, and remind the workers of runs that wait too long. Returns those changed."""
    recovered = [run for run in Run.objects.orphaned().order_by("leased_until")[:100] if _recover(run)]
    for run in Run.objects.overlooked()[:100]:
        queue(run)
    return recovered


def _recover(run: Run) -> bool:
    """Conditional on the very lease that was seen expired: a worker that renews in this moment keeps its run."""
    return _lose(
        run, Run.objects.orphaned().filter(pk=run.pk, attempt=run.attempt), f"The worker {run.worker} stopped answering"
    )


def give_up_attempt(*, run: Run, reason: str) -> None:
    """For a worker whose own child fell silent: the same as if the worker had. Raises Superseded."""
    if not _lose(run, Run.objects.held(run.attempt).filter(pk=run.pk), reason):
        raise Superseded(run)


@transaction.atomic
def _lose(run: Run, lost: RunQuerySet, reason: str) -> bool:
    """End the attempt: cancelled if that was wanted, failed after too many losses, else queued for another worker."""
    transaction.on_commit(partial(show, run.pk), robust=True)
    ended = {"leased_until": None, "process_id": None}
    losses = run.losses + 1
    # CANCELLING is decided in the statement itself: somebody may press Cancel at this very moment.
    if lost.filter(state=Run.State.CANCELLING).update(state=Run.State.CANCELLED, finished_at=now(), **ended):
        RunEvent.objects.create(
            run=run, kind="cancelled", text=f"{reason} while it was being cancelled, so it counts as cancelled."
        )
        return True
    if losses >= MAX_LOSSES:
        failure = _given_up(run, losses)
        if not lost.update(
            state=Run.State.FAILED, failure=failure.as_json(), finished_at=now(), losses=losses, **ended
        ):
            return False
        RunEvent.objects.create(run=run, kind="failed", text=failure.message)
        return True
    if not lost.update(state=Run.State.QUEUED, queued_at=now(), losses=losses, worker="", process_id=None):
        return False
    where = f"step {run.checkpoint_step}" if run.checkpoint_step else "the beginning"
    RunEvent.objects.create(run=run, kind="lost", text=f"{reason}. Queued again: the next worker goes on from {where}.")
    queue(run)
    return True


def _given_up(run: Run, losses: int) -> Failure:
    return Failure(
        category="lost",
        message=f"{losses} workers in a row stopped answering while they had this run; it is not tried again by itself.",
        advice=(
            "If the machine ran out of memory it may have killed the worker itself: lower the batch size or the longest "
            "row, or use LoRA. Then resume the run; it goes on from its last checkpoint."
        ),
        command=run.command,
    )
