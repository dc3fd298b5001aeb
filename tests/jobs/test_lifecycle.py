"""Only one worker holds a job at a time, even if one presumed dead comes back. Tested on training runs; for all kinds see test_models.py."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils.timezone import now
from kombu.exceptions import OperationalError

from apps.jobs import lifecycle
from apps.jobs.lifecycle import NotActive, NotResumable
from apps.jobs.models import Failure, Job, Phase, Superseded
from apps.training import progress
from apps.training.launch import RUNS
from apps.training.models import Run
from apps.training.queries import headway
from tests import factories
from workers.app import app

pytestmark = pytest.mark.django_db


def expire(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(leased_until=now() - timedelta(seconds=1))


def claimed(**fields: object) -> Run:
    run = lifecycle.claim(RUNS, factories.run(**fields).pk, worker="here:1")
    assert run is not None
    return run


def test_a_second_delivery_finds_nothing_to_take():
    run = factories.run()
    assert lifecycle.claim(RUNS, run.pk, worker="one:1") is not None
    assert lifecycle.claim(RUNS, run.pk, worker="two:2") is None
    run.refresh_from_db()
    assert (run.state, run.attempt, run.worker) == ("starting", 1, "one:1")


def test_a_cancelled_run_is_not_taken():
    run = factories.run()
    lifecycle.cancel(run, by=factories.member(of=run.workspace).user)
    assert lifecycle.claim(RUNS, run.pk, worker="one:1") is None


def test_the_worker_learns_of_a_cancellation_when_it_renews():
    run = claimed()
    assert lifecycle.renew(run) == Phase.RUNNING
    lifecycle.cancel(run, by=factories.member(of=run.workspace).user)
    assert lifecycle.renew(run) == Phase.STOPPING


def test_an_expired_run_is_queued_for_another_worker_and_the_first_can_write_nothing_more():
    first = claimed(checkpoint_step=40)
    expire(first)
    assert [run.pk for run in lifecycle.recover(RUNS)] == [first.pk]
    second = lifecycle.claim(RUNS, first.pk, worker="there:2")
    assert second is not None
    assert second.attempt == 2
    with pytest.raises(Superseded):
        lifecycle.renew(first)
    with pytest.raises(Superseded):
        progress.apply(run=first, update=progress.RunUpdate(seq=5, offset=500, step=41))
    with pytest.raises(Superseded):
        lifecycle.stop(first, "Too late.")
    second.refresh_from_db()
    assert (second.state, second.step) == ("starting", 0)
    assert "continues from step 40" in second.events.get(kind="lost").text


def test_a_renewed_lease_is_not_taken_away():
    run = claimed()
    expire(run)
    lifecycle.renew(run)
    assert lifecycle.recover(RUNS) == []


def test_after_three_lost_workers_the_run_fails_and_says_so():
    run = factories.run()
    for _ in range(Run.MAX_LOSSES):
        taken = lifecycle.claim(RUNS, run.pk, worker="here:1")
        assert taken is not None
        expire(taken)
        lifecycle.recover(RUNS)
    run.refresh_from_db()
    assert run.state == Run.State.FAILED
    assert run.failure["category"] == "lost"
    assert run.failure["message"].startswith("3 workers in a row stopped answering")


def test_a_run_that_gets_on_between_the_losses_is_not_given_up():
    run = factories.run()
    for attempt in range(1, Run.MAX_LOSSES + 2):
        taken = lifecycle.claim(RUNS, run.pk, worker="here:1")
        assert taken is not None
        progress.apply(run=taken, update=progress.RunUpdate(seq=attempt, offset=attempt, checkpoint_step=10 * attempt))
        expire(taken)
        lifecycle.recover(RUNS)
    run.refresh_from_db()
    assert (run.state, run.losses) == ("queued", 1)


def test_a_lost_worker_of_a_run_being_cancelled_cancels_it():
    run = claimed()
    lifecycle.cancel(run, by=factories.member(of=run.workspace).user)
    expire(run)
    lifecycle.recover(RUNS)
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLED


def test_a_run_that_can_not_be_recovered_keeps_no_other_waiting(monkeypatch):
    odd, other = claimed(), claimed()
    for run in (odd, other):
        expire(run)
    recovered: list[Job] = []

    def record(job: Job, *_: object) -> None:
        if job.pk == odd.pk:
            raise ArithmeticError
        recovered.append(job)

    monkeypatch.setattr(lifecycle, "kind_of_job", lambda job: replace(RUNS, on_event=record))
    assert [run.pk for run in lifecycle.recover(RUNS)] == [other.pk]
    Run.objects.update(state=Run.State.QUEUED, leased_until=now() - timedelta(minutes=1))
    monkeypatch.setattr(lifecycle, "queue", record)
    lifecycle.recover(RUNS)
    assert [run.pk for run in recovered] == [other.pk, other.pk]


def test_workers_are_reminded_of_a_run_that_waits_too_long(django_capture_on_commit_callbacks):
    run = factories.run(leased_until=now() - timedelta(minutes=1))
    with django_capture_on_commit_callbacks() as sent:
        lifecycle.recover(RUNS)
    assert len(sent) == 1
    run.refresh_from_db()
    assert run.leased_until > now() + timedelta(minutes=9)


def test_resuming_forgets_the_failure_and_the_losses():
    run = factories.run(state=Run.State.FAILED, failure={"category": "killed"}, losses=2, checkpoint_step=30)
    lifecycle.resume(run, by=factories.member(of=run.workspace).user)
    assert (run.state, run.failure, run.losses) == ("queued", {}, 0)
    assert "from step 30" in run.events.get(kind="resumed").text


def test_a_resumed_run_waits_since_it_was_resumed():
    yesterday = now() - timedelta(days=1)
    run = factories.run(state=Run.State.FAILED, attempt=1, queued_at=yesterday, running_since=yesterday)
    lifecycle.resume(run, by=factories.member(of=run.workspace).user)
    Run.objects.update(queued_at=now() - timedelta(minutes=2))
    run.refresh_from_db()
    assert headway(run).end == "2 min"


def test_a_finished_run_can_be_neither_cancelled_nor_resumed():
    run = factories.run(state=Run.State.FINISHED, finished_at=now())
    person = factories.member(of=run.workspace).user
    with pytest.raises(NotActive, match="This training run is finished"):
        lifecycle.cancel(run, by=person)
    with pytest.raises(NotResumable, match="This training run is finished"):
        lifecycle.resume(run, by=person)


def test_cancelling_twice_is_refused_the_second_time():
    run = claimed()
    person = factories.member(of=run.workspace).user
    lifecycle.cancel(run, by=person)
    with pytest.raises(NotActive, match="cancelling"):
        lifecycle.cancel(run, by=person)
    assert run.events.filter(kind="cancelling").count() == 1


def test_a_worker_that_shuts_down_gives_its_run_back_without_counting_a_loss():
    run = claimed()
    lifecycle.release(run, "Its worker is shutting down.")
    run.refresh_from_db()
    assert (run.state, run.losses, run.worker) == ("queued", 0, "")


def test_a_run_that_somebody_cancels_while_its_worker_shuts_down_is_not_taken_up_again():
    run = claimed()
    lifecycle.cancel(run, by=factories.member(of=run.workspace).user)
    lifecycle.release(run, "Its worker is shutting down.")
    run.refresh_from_db()
    assert (run.state, run.leased_until) == ("cancelled", None)
    assert lifecycle.claim(RUNS, run.pk, worker="there:2") is None


def test_a_run_is_queued_though_the_broker_is_away_and_workers_are_told_later(
    monkeypatch, django_capture_on_commit_callbacks
):
    def away(*_: object, **__: object) -> None:
        raise OperationalError("Connection refused")

    run = factories.run(state=Run.State.FAILED)
    monkeypatch.setattr(app, "send_task", away)
    with django_capture_on_commit_callbacks(execute=True):
        lifecycle.resume(run, by=factories.member(of=run.workspace).user)
    run.refresh_from_db()
    assert run.state == "queued"
    assert run.leased_until is not None


def test_pages_that_cannot_be_told_stop_no_job(monkeypatch, django_capture_on_commit_callbacks):
    def away(*_: object) -> None:
        raise ConnectionError("Valkey is away")

    monkeypatch.setattr("apps.training.live.send", away)
    with django_capture_on_commit_callbacks(execute=True):
        run = claimed()
        lifecycle.fail(run, Failure("data", "Row 3 is no JSON."))
    run.refresh_from_db()
    assert run.state == Run.State.FAILED
