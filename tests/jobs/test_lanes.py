"""Many or long jobs of one workspace, or of one person, leave workers to the others."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from apps.accounts.models import User
from apps.annotation.desk.continuations import CONTINUATIONS
from apps.annotation.models import Continuation
from apps.common.broker import route_of
from apps.jobs import lanes, lifecycle
from apps.jobs.models import Failure, Job, Kind, kind_named, kind_of_job
from apps.policies.publication import PUBLICATIONS
from apps.trajectories.imports.import_job import IMPORTS
from apps.trajectories.models import ImportBatch
from tests import factories
from tests.jobs import builders

pytestmark = pytest.mark.django_db


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
    assert all(hasattr(kind.model, "created_by") for kind in kinds if kind.lane in lanes.DEFAULT_LANES)


def test_the_lanes_of_the_default_workers_are_known() -> None:
    jobs = [make(factories.workspace()) for make in builders.MAKERS.values()]
    used = {kind_of_job(job).lane for job in jobs if route_of(kind_of_job(job).task(job)).worker_queue == "default"}
    assert used == set(lanes.DEFAULT_LANES)


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
