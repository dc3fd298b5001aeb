"""Only one worker holds a job at a time, even if one presumed dead comes back. Tested on training runs; for all kinds see test_models.py."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils.timezone import now
from kombu.exceptions import OperationalError

from apps.accounts.models import User
from apps.annotation.desk.continuations import CONTINUATIONS
from apps.annotation.models import Continuation
from apps.common.broker import route_of
from apps.jobs import lifecycle
from apps.jobs.lifecycle import NotActive, NotResumable
from apps.jobs.models import Failure, Job, Kind, Phase, Superseded, kind_named, kind_of_job
from apps.policies.publication import PUBLICATIONS
from apps.training import progress
from apps.training.launch import RUNS
from apps.training.models import Run
from apps.training.queries import headway
from apps.trajectories.imports.import_job import IMPORTS
from apps.trajectories.models import ImportBatch
from tests import factories
from tests.jobs import builders
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


def lose_for_good(job: Job) -> None:
    job.losses = job.MAX_LOSSES - 1
    lifecycle.lose(job, "The worker died")


ENDS: dict[str, Callable[[Job], object]] = {
    "finish": lifecycle.finish,
    "fail": lambda job: lifecycle.fail(job, Failure("data", "It's damaged.")),
    "cancel": lambda job: lifecycle.cancel(job, by=None),
    "lose": lose_for_good,
}


@pytest.mark.parametrize("end", ENDS)
def test_long_jobs_of_a_workspace_take_turns_and_leave_workers_to_others(
    end: str, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(lifecycle, "enqueue", lambda task, job_id: sent.append(job_id))
    first, second, third = (ImportBatch.objects.create(workspace=here, size=1) for here in [factories.workspace()] * 3)
    elsewhere = ImportBatch.objects.create(workspace=factories.workspace(), size=1)
    held = lifecycle.claim(IMPORTS, first.pk, worker="one:1")
    assert held is not None
    assert lifecycle.claim(IMPORTS, third.pk, worker="two:2") is None
    assert lifecycle.claim(IMPORTS, elsewhere.pk, worker="two:2") is not None
    with django_capture_on_commit_callbacks(execute=True):
        ENDS[end](held)
    assert sent[-1] == str(second.pk)
    assert lifecycle.claim(IMPORTS, second.pk, worker="two:2") is not None
    assert lifecycle.claim(IMPORTS, third.pk, worker="one:1") is None


def of_kind(name: str) -> Kind[Any]:
    kind = kind_named(name)
    assert kind is not None
    return kind


@pytest.mark.parametrize("end", ENDS)
def test_a_workspace_has_two_jobs_at_the_default_workers_however_many_kinds_there_are(
    end: str, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    """It may also fill or measure a queue there, and other workspaces need a worker."""
    sent: list[str] = []
    monkeypatch.setattr(lifecycle, "enqueue", lambda task, job_id: sent.append(job_id))
    here, elsewhere = factories.workspace(), factories.workspace()
    held = lifecycle.claim(IMPORTS, builders.an_import(here).pk, worker="one:1")
    assert held is not None
    assert lifecycle.claim(of_kind("workspace_exports"), builders.workspace_export(here).pk, worker="two:2") is not None
    version, another_import = builders.version(here), builders.an_import(here)
    assert lifecycle.claim(of_kind("versions"), version.pk, worker="three:3") is None
    assert lifecycle.claim(of_kind("versions"), builders.version(elsewhere).pk, worker="three:3") is not None
    with django_capture_on_commit_callbacks(execute=True):
        ENDS[end](held)
    assert sent[-2:] == [str(another_import.pk), str(version.pk)]
    assert lifecycle.claim(of_kind("versions"), version.pk, worker="one:1") is not None
    assert lifecycle.claim(IMPORTS, another_import.pk, worker="three:3") is None


@pytest.mark.parametrize("end", ENDS)
def test_a_person_has_two_jobs_at_the_default_workers_in_however_many_workspaces(
    end: str, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    """Researchers may create any number of workspaces."""
    sent: list[str] = []
    monkeypatch.setattr(lifecycle, "enqueue", lambda task, job_id: sent.append(job_id))
    person, other = factories.member().user, factories.member().user

    def requested(by: User) -> ImportBatch:
        return ImportBatch.objects.create(workspace=factories.workspace(), size=1, created_by=by)

    first, second, third = (requested(person) for _ in range(3))
    held = lifecycle.claim(IMPORTS, first.pk, worker="one:1")
    assert held is not None
    assert lifecycle.claim(IMPORTS, second.pk, worker="two:2") is not None
    assert lifecycle.claim(IMPORTS, third.pk, worker="three:3") is None
    assert lifecycle.claim(IMPORTS, requested(other).pk, worker="three:3") is not None
    with django_capture_on_commit_callbacks(execute=True):
        ENDS[end](held)
    assert sent == [str(third.pk)]
    assert lifecycle.claim(IMPORTS, third.pk, worker="one:1") is not None


def test_whoever_requests_a_job_of_the_default_workers_is_known() -> None:
    kinds = [kind_of_job(make(factories.workspace())) for make in builders.MAKERS.values()]
    assert all(hasattr(kind.model, "created_by") for kind in kinds if kind.lane in lifecycle.DEFAULT_LANES)


def test_the_lanes_of_the_default_workers_are_known() -> None:
    jobs = [make(factories.workspace()) for make in builders.MAKERS.values()]
    lanes = {kind_of_job(job).lane for job in jobs if route_of(kind_of_job(job).task(job)).worker_queue == "default"}
    assert lanes == set(lifecycle.DEFAULT_LANES)


def test_a_job_whose_worker_died_keeps_no_other_from_its_turn() -> None:
    here = factories.workspace()
    first, second = (ImportBatch.objects.create(workspace=here, size=1) for _ in range(2))
    assert lifecycle.claim(IMPORTS, first.pk, worker="one:1") is not None
    ImportBatch.objects.filter(pk=first.pk).update(leased_until=now() - timedelta(seconds=1))
    assert lifecycle.claim(IMPORTS, second.pk, worker="two:2") is not None


def test_of_a_workspace_one_publication_at_once_may_wait_for_a_server() -> None:
    """Each may wait for a quarter of an hour, and few workers do so."""
    here = factories.workspace()
    first, second = (builders.publication(here) for _ in range(2))
    elsewhere = builders.publication(factories.workspace())
    assert lifecycle.claim(PUBLICATIONS, first.pk, worker="one:1") is not None
    assert lifecycle.claim(PUBLICATIONS, second.pk, worker="two:2") is None
    assert lifecycle.claim(PUBLICATIONS, elsewhere.pk, worker="two:2") is not None


def test_of_a_workspace_one_served_model_at_once_continues_trajectories() -> None:
    here = factories.workspace()
    first, second = (builders.continuation(here) for _ in range(2))
    assert lifecycle.claim(CONTINUATIONS, first.pk, worker="one:1") is not None
    assert (
        lifecycle.claim(CONTINUATIONS, second.pk, worker="two:2") is not None
    )  # the limit is the number of loaded models
    served = [builders.continuation(here) for _ in range(2)]
    Continuation.objects.filter(pk__in=[continuation.pk for continuation in served]).update(
        policy=factories.served_policy(of=here)
    )
    assert lifecycle.claim(CONTINUATIONS, served[0].pk, worker="three:3") is not None
    assert lifecycle.claim(CONTINUATIONS, served[1].pk, worker="four:4") is None
