"""Properties of every kind of job, tested on each."""

from datetime import timedelta

import pytest
from django.utils.timezone import now

from apps.accounts.models import User
from apps.jobs import lifecycle
from apps.jobs.models import Failure, Job, Kind, Phase, Superseded, kind_of_job, kinds
from tests import factories
from tests.jobs.builders import MAKERS
from workers.app import app

pytestmark = pytest.mark.django_db


@pytest.fixture(params=MAKERS)
def job(request: pytest.FixtureRequest) -> Job:
    return MAKERS[request.param](factories.workspace())


@pytest.fixture
def kind(job: Job) -> Kind:
    return kind_of_job(job)


@pytest.fixture
def person(job: Job) -> User:
    return factories.member(of=job.workspace).user


def claimed(job: Job, worker: str = "elsewhere:1") -> Job:
    taken = lifecycle.claim(kind_of_job(job), job.pk, worker=worker)
    assert taken is not None
    return taken


def silent(job: Job) -> None:
    """Expire the worker's lease."""
    type(job)._default_manager.filter(pk=job.pk).update(leased_until=now() - timedelta(seconds=1))


def test_every_kind_is_tried_here():
    assert {kind.name for kind in kinds()} == set(MAKERS)


def test_its_task_is_one_that_workers_know(job: Job, kind: Kind):
    app.loader.import_default_modules()
    assert kind.task(job) in app.tasks


def test_it_is_taken_once(job: Job, kind: Kind):
    taken = claimed(job)
    assert (taken.phase, taken.attempt, taken.worker) == (Phase.RUNNING, 1, "elsewhere:1")
    assert taken.started_at is not None
    assert lifecycle.claim(kind, job.pk, worker="other:2") is None


def test_the_worker_that_was_believed_dead_can_change_nothing(job: Job, kind: Kind):
    first = claimed(job)
    silent(job)
    assert lifecycle.recover(kind) == [job]
    second = claimed(job, "other:2")
    for write in (
        lambda: lifecycle.renew(first),
        lambda: lifecycle.record_progress(first),
        lambda: lifecycle.finish(first),
        lambda: lifecycle.fail(first, Failure("crash", "Too late.")),
        lambda: lifecycle.release(first, "Too late."),
        lambda: lifecycle.lose(first, "Too late."),
    ):
        with pytest.raises(Superseded):
            write()
    second.refresh_from_db()
    assert (second.phase, second.attempt, second.losses) == (Phase.RUNNING, 2, 1)
    assert second.loss == "The worker elsewhere:1 stopped answering"


def test_one_that_is_told_of_again_is_taken_from_a_worker_of_this_machine_that_is_gone(job: Job, kind: Kind):
    host = lifecycle.this_worker().rpartition(":")[0]
    claimed(job, f"{host}:4194300")  # above the largest possible process id
    again = lifecycle.claim(kind, job.pk, worker="other:2")
    assert again is not None
    assert (again.attempt, again.losses) == (2, 1)


def test_after_too_many_losses_in_a_row_it_fails_and_says_so(job: Job, kind: Kind):
    for _ in range(job.MAX_LOSSES):
        claimed(job)
        silent(job)
        lifecycle.recover(kind)
    job.refresh_from_db()
    assert (job.phase, job.attempt) == (Phase.FAILED, 3)
    assert job.error.startswith(f"3 workers in a row stopped answering while they had this {kind.noun}; ")
    assert job.finished_at is not None


def test_losses_are_forgotten_when_it_gets_on(job: Job, kind: Kind):
    claimed(job)
    silent(job)
    lifecycle.recover(kind)
    taken = claimed(job)
    assert "stopped answering. It continues automatically from" in taken.setback
    lifecycle.record_progress(taken)
    job.refresh_from_db()
    assert (job.losses, job.loss, job.setback) == (0, "", "")


def test_a_worker_that_shuts_down_gives_it_back_without_a_loss(job: Job):
    taken = claimed(job)
    lifecycle.release(taken, "Its worker is shutting down.")
    job.refresh_from_db()
    assert (job.phase, job.losses, job.worker) == (Phase.WAITING, 0, "")


def test_one_that_nobody_took_is_told_of_again(job: Job, kind: Kind, monkeypatch: pytest.MonkeyPatch):
    enqueued: list[tuple[object, ...]] = []
    monkeypatch.setattr(lifecycle, "enqueue", lambda *call: enqueued.append(call))
    lifecycle.queue(job)
    lifecycle.recover(kind)
    silent(job)  # as ten minutes later
    lifecycle.recover(kind)
    lifecycle.recover(kind)
    assert enqueued == [(kind.task(job), str(job.pk))] * 2


def test_it_is_cancelled_before_it_began_and_resumed_if_its_kind_can_be(job: Job, kind: Kind, person: User):
    if not kind.is_cancellable:
        with pytest.raises(lifecycle.NotControllable, match="can't be cancelled or resumed"):
            lifecycle.cancel(job, by=person)
        return
    assert lifecycle.cancel(job, by=person).phase == Phase.CANCELLED
    assert lifecycle.claim(kind, job.pk) is None
    with pytest.raises(lifecycle.NotActive):
        lifecycle.cancel(job, by=person)
    if not kind.is_resumable:
        with pytest.raises(lifecycle.NotControllable):
            lifecycle.resume(job, by=person)
        return
    assert lifecycle.resume(job, by=person).phase == Phase.WAITING
    with pytest.raises(lifecycle.NotResumable):
        lifecycle.resume(job, by=person)
    claimed(job)


def test_cancelling_a_running_one_ends_it_at_its_workers_next_word(job: Job, kind: Kind, person: User):
    if not kind.is_cancellable:
        return
    taken = claimed(job)
    lifecycle.cancel(job, by=person)
    if kind.stops_gracefully:
        assert lifecycle.renew(taken) == Phase.STOPPING
        lifecycle.stop(taken, "It stopped when asked to.")
    else:
        with pytest.raises(Superseded):
            lifecycle.renew(taken)
    job.refresh_from_db()
    assert job.phase == Phase.CANCELLED


def test_a_lost_one_that_somebody_had_cancelled_is_cancelled(job: Job, kind: Kind, person: User):
    if not kind.stops_gracefully:
        return
    claimed(job)
    lifecycle.cancel(job, by=person)
    silent(job)
    lifecycle.recover(kind)
    job.refresh_from_db()
    assert job.phase == Phase.CANCELLED


def test_one_kind_that_breaks_keeps_no_other_from_being_recovered(monkeypatch: pytest.MonkeyPatch, caplog):
    lost = MAKERS["judges"](factories.workspace())
    claimed(lost)
    silent(lost)
    recover = lifecycle.recover

    def broken(kind: Kind) -> list[Job]:
        if kind.name == "imports":
            raise ZeroDivisionError
        return recover(kind)

    monkeypatch.setattr(lifecycle, "recover", broken)
    lifecycle.recover_all()
    lost.refresh_from_db()
    assert lost.phase == Phase.WAITING
    assert "imports could not be recovered" in caplog.text
