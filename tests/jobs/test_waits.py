"""What pages say about a waiting job: which job holds the worker, and for how long."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.core.cache import cache
from django.db.models import F
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Membership, Role
from apps.annotation.models import Continuation
from apps.common.health import note_worker
from apps.datasets.freezing import VERSIONS
from apps.jobs import lifecycle, waits
from apps.jobs.models import Job, kind_of_job
from apps.jobs.waits import should_yield, wait_of
from apps.training.models import Run
from tests import factories
from tests.accounts.clients import as_
from tests.jobs.builders import MAKERS

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def researcher() -> Membership:
    cache.clear()
    note_worker(["default", "remote", "generate", "train"])
    return factories.member(Role.RESEARCHER)


def start(job: Job) -> Job:
    taken = lifecycle.claim(kind_of_job(job), job.pk, worker="elsewhere:77")
    assert taken is not None
    return taken


def since(job: Job, minutes: int = 1) -> Job:
    """The job, as if it had been waiting this long."""
    type(job)._default_manager.filter(pk=job.pk).update(queued_at=now() - minutes * MINUTE)
    job.refresh_from_db()
    return job


def half_done(run: Run, *, minutes: int) -> Run:
    """The run, as if it had been running for this long and were half done."""
    start(run)
    Run.objects.filter(pk=run.pk).update(
        state="running", step=50, total_steps=100, running_since=now(), step_seconds=minutes * 60 / 50
    )
    return run


def page(member: Membership, job: Job) -> str:
    answer = as_(member).get(kind_of_job(job).url(job))
    assert answer.status_code == 200
    return unescape(" ".join(answer.content.decode().split()))


def test_a_queued_run_names_the_run_that_holds_the_worker_and_how_long_that_takes(researcher: Membership):
    first = half_done(factories.run(of=researcher.workspace, name="the first"), minutes=11)
    text = page(researcher, since(factories.run(of=researcher.workspace)))
    link = f'<a href="{reverse("training:run", args=[first.pk])}">Training run “the first”</a>'
    assert f"{link} holds the worker, about 11 min left<" in text


def test_another_workspaces_run_is_not_named(researcher: Membership):
    half_done(factories.run(name="secret sauce"), minutes=5)
    text = page(researcher, since(factories.run(of=researcher.workspace)))
    assert "Another workspace's training run holds the worker, about 5 min left<" in text
    assert "secret sauce" not in text


@pytest.mark.parametrize("seconds", ["inf", "nan", 1e300])
def test_another_workspaces_absurd_forecast_breaks_no_page(researcher: Membership, seconds: str | float):
    """It may come from measurements in an imported archive."""
    other = factories.run()
    start(other)
    Run.objects.filter(pk=other.pk).update(state="running", running_since=now(), expected_seconds=float(seconds))
    text = page(researcher, since(factories.run(of=researcher.workspace)))
    assert "Another workspace's training run holds the worker" in text
    assert page(factories.member(Role.RESEARCHER, of=other.workspace), other)


def test_who_may_not_open_a_run_is_not_told_its_name(researcher: Membership):
    half_done(factories.run(of=researcher.workspace, name="the first"), minutes=5)
    waiting = since(factories.run(of=researcher.workspace))
    wait = wait_of(waiting, role=Role.ANNOTATOR)
    assert wait is not None
    assert wait.text == "A training run holds the worker, about 5 min left"


def test_jobs_that_wait_longer_are_counted(researcher: Membership):
    half_done(factories.run(of=researcher.workspace, name="the first"), minutes=5)
    since(factories.run(of=researcher.workspace), minutes=3)
    since(factories.run(), minutes=2)
    last = since(factories.run(of=researcher.workspace), minutes=1)
    assert "; 2 other jobs go first<" in page(researcher, last)


@pytest.mark.parametrize("name", ["rollouts", "imports", "versions", "publications", "training_runs"])
def test_every_kinds_page_says_what_holds_the_worker(researcher: Membership, name: str):
    start(MAKERS[name](researcher.workspace))
    waiting = since(MAKERS[name](researcher.workspace))
    noun = kind_of_job(waiting).noun
    text = page(researcher, waiting)
    assert f"{noun.capitalize()} “" in text
    assert "holds the worker" in text


def test_a_judge_that_waits_says_so_on_its_queues_page(researcher: Membership):
    start(MAKERS["judges"](researcher.workspace))
    judge = since(MAKERS["judges"](researcher.workspace))
    assert re.search(r"waits: Judge “.+” holds the worker\.", page(researcher, judge))


def test_training_never_holds_up_what_generates(researcher: Membership):
    half_done(factories.run(of=researcher.workspace), minutes=11)
    continuation = since(MAKERS["continuations"](researcher.workspace))
    wait = wait_of(continuation, role=Role.ANNOTATOR)
    assert wait is not None
    assert (wait.worker_queue, wait.holder, wait.ahead, wait.text) == ("generate", None, 0, "Waiting for a worker")


def test_what_a_person_waits_for_goes_before_batches_that_wait_longer(researcher: Membership):
    batch = since(MAKERS["rollouts"](researcher.workspace), minutes=9)
    continuation = since(MAKERS["continuations"](researcher.workspace))
    before = wait_of(continuation, role=Role.RESEARCHER)
    behind = wait_of(batch, role=Role.RESEARCHER)
    assert before is not None
    assert behind is not None
    assert (before.ahead, behind.ahead) == (0, 1)
    assert behind.text == "Waiting for a worker; 1 other job goes first"


def test_a_batch_at_work_gives_way_to_a_person_and_to_nothing_else(
    researcher: Membership, django_capture_on_commit_callbacks
):
    batch = start(MAKERS["rollouts"](researcher.workspace))
    since(MAKERS["rollouts"](researcher.workspace))
    since(factories.run(of=researcher.workspace))
    assert not should_yield(batch)
    continuation = MAKERS["continuations"](researcher.workspace)
    assert not should_yield(batch)  # an idle worker may be about to claim it
    since(continuation)
    with django_capture_on_commit_callbacks() as reminders:
        assert should_yield(batch)
    assert len(reminders) == 1
    start(continuation)
    assert not should_yield(batch)


def test_continuations_that_wait_for_a_server_hide_none_that_wait_for_the_worker(
    researcher: Membership, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(waits, "MAX_WAITING", 1)
    batch = start(MAKERS["rollouts"](researcher.workspace))
    served = since(MAKERS["continuations"](factories.workspace()), minutes=9)
    Continuation.objects.filter(pk=served.pk).update(policy=factories.served_policy(of=served.workspace))
    assert not should_yield(batch)
    since(MAKERS["continuations"](researcher.workspace))
    assert should_yield(batch)


def test_of_several_holders_the_first_to_end_is_named(researcher: Membership):
    half_done(factories.run(of=researcher.workspace, name="slow"), minutes=30)
    half_done(factories.run(of=researcher.workspace, name="quick"), minutes=4)
    wait = wait_of(since(factories.run(of=researcher.workspace)), role=Role.RESEARCHER)
    assert wait is not None
    assert wait.text == "Training run “quick” and 1 more job hold the workers; the first has about 4 min left"


def test_without_a_worker_the_page_says_how_to_start_one(researcher: Membership):
    cache.clear()
    note_worker(["default"])
    text = page(researcher, since(factories.run(of=researcher.workspace)))
    assert "No worker is running that could take this" in text
    assert "celery -A workers.app worker --queues train" in text


def test_a_job_that_was_just_queued_blames_nobody(researcher: Membership):
    """One of several workers may be free."""
    start(MAKERS["versions"](researcher.workspace))
    wait = wait_of(MAKERS["versions"](researcher.workspace), role=Role.RESEARCHER)
    assert wait is not None
    assert wait.text == "Waiting for a worker"


def test_only_what_waits_waits_for_something(researcher: Membership):
    assert wait_of(start(factories.run(of=researcher.workspace)), role=Role.OWNER) is None


def test_more_waiting_jobs_need_no_more_queries(researcher: Membership, django_assert_num_queries):
    for _ in range(3):
        start(factories.run(of=researcher.workspace))
        waiting = since(factories.run(of=researcher.workspace))
    with django_assert_num_queries(21):  # held and waiting jobs of ten kinds, and the order of turns
        wait_of(waiting, role=Role.RESEARCHER)


def test_an_outsider_learns_nothing(researcher: Membership):
    waiting = since(factories.run(of=researcher.workspace))
    assert as_(factories.member()).get(reverse("training:run", args=[waiting.pk])).status_code == 404


def test_how_long_is_not_guessed_from_an_attempt_that_went_on_where_another_stopped(researcher: Membership):
    version = start(MAKERS["versions"](researcher.workspace))
    rows = VERSIONS.rows.filter(pk=version.pk)
    rows.update(rows_done=30, rows_expected=40, started_at=now() - MINUTE * 3)
    version.refresh_from_db()
    assert version.seconds_left == pytest.approx(60, abs=1)
    rows.update(attempt=F("attempt") + 1)
    version.refresh_from_db()
    assert version.seconds_left is None
