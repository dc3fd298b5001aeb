"""Who works on a run. One worker at a time: it takes the run by a conditional update that numbers the attempt, and every
later write of that worker is fenced by that number. A worker that was believed dead and comes back can change nothing.
"""

from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils.timezone import now

from apps.common.broker import enqueue
from apps.common.leases import REMIND_AFTER, Superseded, lease
from apps.training.models import Run, RunEvent

TASK = "training.run"


def queue(run: Run) -> None:
    """Tell the workers about a queued run, and remember when to tell them again should nobody answer."""
    Run.objects.filter(pk=run.pk, state=Run.State.QUEUED).update(leased_until=now() + REMIND_AFTER)
    enqueue(TASK, str(run.pk))


def claim(run_id: UUID | str, *, worker: str) -> Run | None:
    """Take a queued run; None when it is cancelled, taken, or gone."""
    with transaction.atomic():
        taken = Run.objects.filter(pk=run_id, state=Run.State.QUEUED).update(
            state=Run.State.STARTING,
            attempt=F("attempt") + 1,
            worker=worker,
            process_id=None,
            running_since=None,
            leased_until=now() + lease(),
        )
        if not taken:
            return None
        run = Run.objects.select_related("version__dataset", "base__endpoint", "workspace").get(pk=run_id)
        if run.started_at is None:
            run.started_at = now()
            run.save(update_fields=["started_at"])
        again = "" if run.attempt == 1 else f" (attempt {run.attempt})"
        RunEvent.objects.create(run=run, kind="taken", text=f"Taken by {worker}{again}.")
    return run


def renew(run: Run) -> Run.State:
    """Keep the run for another lease, and learn its state (somebody may want it cancelled).

    Raises Superseded when it is no longer this attempt's.
    """
    kept = Run.objects.held(run.attempt).filter(pk=run.pk)
    if not kept.update(leased_until=now() + lease()):
        raise Superseded(run)
    state = kept.values_list("state", flat=True).first()
    if state is None:
        raise Superseded(run)
    return Run.State(state)


def note_process(run: Run, *, process_id: int, command: str) -> None:
    """Remember which child works on it and how it was started."""
    if not Run.objects.held(run.attempt).filter(pk=run.pk).update(process_id=process_id, command=command):
        raise Superseded(run)


@transaction.atomic
def release(run: Run, *, reason: str) -> None:
    """Put the run back in the queue: its worker is going away in good order."""
    held = Run.objects.held(run.attempt).filter(pk=run.pk)
    # Somebody may have pressed Cancel while the worker waited for the checkpoint: the next one must not go on.
    if held.filter(state=Run.State.CANCELLING).update(
        state=Run.State.CANCELLED, finished_at=now(), leased_until=None, process_id=None
    ):
        RunEvent.objects.create(run=run, kind="cancelled", text="It stopped when asked to.")
        return
    if not held.update(state=Run.State.QUEUED, queued_at=now(), worker="", process_id=None):
        raise Superseded(run)
    RunEvent.objects.create(run=run, kind="requeued", text=reason)
    queue(run)
