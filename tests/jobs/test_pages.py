"""The page of jobs, which only owners can see."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Membership, Role
from apps.common.health import note_worker
from apps.jobs import lanes, lifecycle, queries
from apps.jobs.models import Failure, Job, Phase, kind_of_job
from tests import factories
from tests.accounts.clients import as_
from tests.jobs.builders import MAKERS

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> Membership:
    cache.clear()
    return factories.member(Role.OWNER)


def page(member: Membership) -> str:
    answer = as_(member).get(reverse("jobs:list"))
    assert answer.status_code == 200
    return answer.content.decode()


def start(job: Job, worker: str = "gpu-1:77") -> Job:
    taken = lifecycle.claim(kind_of_job(job), job.pk, worker=worker)
    assert taken is not None
    return taken


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER, Role.RESEARCHER])
def test_it_is_there_for_owners_only(owner: Membership, role: Role):
    somebody = as_(factories.member(role, of=owner.workspace))
    job = factories.run(of=owner.workspace)
    assert somebody.get(reverse("jobs:list")).status_code == 404
    for action in ("cancel", "resume"):
        assert somebody.post(reverse(f"jobs:{action}", args=["training_runs", job.pk])).status_code == 404
    assert reverse("jobs:list") not in somebody.get(reverse("home")).content.decode()
    assert reverse("jobs:list") in as_(owner).get(reverse("home")).content.decode()


def test_another_workspaces_jobs_are_counted_and_not_named(owner: Membership):
    stranger = factories.run(name="secret sauce")
    mine = factories.run(of=owner.workspace, name="mine")
    text = page(owner)
    assert "secret sauce" not in text
    assert "1 job of other workspaces in this worker queue" in text
    assert "Behind 1 job of other workspaces" in text
    assert as_(owner).post(reverse("jobs:cancel", args=["training_runs", stranger.pk])).status_code == 404
    mine.refresh_from_db()
    assert mine.phase == Phase.WAITING


def test_many_older_jobs_of_other_workspaces_do_not_hide_ones_own(owner: Membership, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(queries, "MAX_ACTIVE", 2)
    for name in ("first", "second", "third"):
        factories.run(name=name)
    factories.run(of=owner.workspace, name="mine")
    text = page(owner)
    assert ">mine<" in text
    assert "Behind 1 job of other workspaces" in text  # as many as are read


def test_an_empty_workspace_is_told_so(owner: Membership):
    note_worker(["default", "remote", "generate", "train"])
    text = page(owner)
    assert text.count("Nothing is running or waiting.") == 4
    assert "No jobs have failed or been stopped." in text
    assert "No worker serves" not in text


def test_it_says_what_runs_where_and_what_waits_behind_what(owner: Membership):
    note_worker(["train"])
    first, second, third = (factories.run(of=owner.workspace, name=f"run {n}") for n in (1, 2, 3))
    for minutes, run in ((3, second), (2, third)):
        type(run).objects.filter(pk=run.pk).update(queued_at=now() - timedelta(minutes=minutes))
    MAKERS["imports"](owner.workspace)
    start(first)
    text = page(owner)
    assert "gpu-1:77" in text
    assert text.index("Behind run 1<") < text.index("Behind run 1 and 1 more")
    assert "Next" in text  # the import, in a worker queue of its own
    assert "so 1 job waits" in text  # for a worker of the default queue


def test_rollouts_that_runners_play_occupy_no_worker(owner: Membership):
    batch = MAKERS["rollouts"](owner.workspace)
    type(batch).objects.update(config={"played_by": "runners"}, state="running", leased_until=None)
    MAKERS["imports"](owner.workspace)
    [default] = [each for each in queries.worker_queues_of(owner) if each.worker_queue == "default"]
    assert [row.pk for row in default.running] == [batch.pk]
    assert [waiting.place for waiting in default.waiting] == ["Next"]


def test_it_counts_the_jobs_whose_turn_comes_first(owner: Membership):
    stranger = factories.workspace()
    for _ in range(3):
        factories.run(of=stranger)
    mine = [factories.run(of=owner.workspace) for _ in range(2)]
    [train] = [each for each in queries.worker_queues_of(owner) if each.worker_queue == "train"]
    assert [waiting.row.pk for waiting in train.waiting] == [run.pk for run in mine]
    assert [waiting.ahead for waiting in train.waiting] == [1, 3]  # theirs, mine, theirs, mine, theirs


def test_what_failed_says_why_and_is_resumed_by_its_button(owner: Membership):
    failed = start(factories.run(of=owner.workspace))
    lifecycle.fail(failed, Failure("data", "Row 3 is no JSON.", "Correct row 3."))
    text = page(owner)
    assert "Row 3 is no JSON. Correct row 3." in text
    address = reverse("jobs:resume", args=["training_runs", failed.pk])
    assert address in text
    assert as_(owner).post(address).status_code == 302
    failed.refresh_from_db()
    assert failed.phase == Phase.WAITING
    again = as_(owner).post(address, follow=True)
    assert "This training run is queued; only a cancelled or failed one can be resumed." in again.content.decode()


def test_what_ended_sorts_by_age_across_kinds_page_by_page(owner: Membership, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("apps.jobs.views.SHOWN_ENDED", 2)
    made = [MAKERS[name](owner.workspace) for name in ("imports", "training_runs", "rollouts", "imports")]
    for job in made:
        lifecycle.fail(start(job), Failure("crash", "It broke."))

    def shown(**query: str) -> tuple[list[int], str]:
        answer = as_(owner).get(reverse("jobs:list"), query)
        ids = [row.pk for row in answer.context["page"].rows]
        return [n for pk in ids for n, job in enumerate(made) if job.pk == pk], answer.context["page"].next

    newest, further = shown()
    assert newest == [3, 2]
    assert shown(cursor=further)[0] == [1, 0]
    oldest, further = shown(sort="oldest")
    assert oldest == [0, 1]
    assert shown(sort="oldest", cursor=further)[0] == [2, 3]
    assert 'aria-sort="ascending"' in as_(owner).get(reverse("jobs:list"), {"sort": "oldest"}).content.decode()


@pytest.mark.parametrize("name", MAKERS)
def test_a_button_cancels_what_can_be_cancelled(owner: Membership, name: str):
    job = MAKERS[name](owner.workspace)
    address = reverse("jobs:cancel", args=[name, job.pk])
    assert (address in page(owner)) == kind_of_job(job).is_cancellable
    as_(owner).post(address)
    job.refresh_from_db()
    assert (job.phase == Phase.CANCELLED) == kind_of_job(job).is_cancellable


def test_an_unknown_kind_is_not_there(owner: Membership):
    job = factories.run(of=owner.workspace)
    assert as_(owner).post(reverse("jobs:cancel", args=["errands", job.pk])).status_code == 404


def test_more_jobs_need_no_more_queries(owner: Membership, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes, "has_its_share", lambda *_: False)

    def fill(times: int) -> None:
        for _ in range(times):
            for make in MAKERS.values():
                make(owner.workspace)
                start(make(owner.workspace))
                lifecycle.fail(start(make(owner.workspace)), Failure("crash", "It broke."))

    fill(1)
    browser = as_(owner)
    browser.get(reverse("jobs:list"))
    with CaptureQueriesContext(
        connection,
    ) as few:
        browser.get(reverse("jobs:list"))
    fill(3)
    with CaptureQueriesContext(connection) as many:
        browser.get(reverse("jobs:list"))
    assert len(many) == len(few)
