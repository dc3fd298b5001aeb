"""Jobs over the API."""

from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Membership, Role
from apps.jobs import lifecycle
from apps.jobs.models import Failure, kind_of_job
from tests import factories
from tests.jobs.builders import MAKERS

pytestmark = pytest.mark.django_db


def api(member: Membership) -> Client:
    secret = issue_token(membership=member, name="test").secret
    return Client(headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture
def owner() -> Membership:
    return factories.member(Role.OWNER)


def test_jobs_of_every_kind_are_one_list_newest_first(owner: Membership):
    made = [make(owner.workspace) for make in MAKERS.values()]
    factories.run()  # of another workspace
    rows = api(owner).get("/api/v1/jobs?phase=waiting").json()["results"]
    assert [row["id"] for row in rows] == [str(job.pk) for job in reversed(made)]
    assert {row["kind"] for row in rows} == set(MAKERS)
    assert {row["phase"] for row in rows} == {"waiting"}
    [run] = [row for row in rows if row["kind"] == "training_runs"]
    assert (run["state"], run["worker_queue"], run["headway"]["unit"]) == ("queued", "train", "steps")


def test_a_list_comes_in_pages_there_and_back(owner: Membership):
    made = [str(make(owner.workspace).pk) for make in MAKERS.values()]
    client, seen, address = api(owner), [], "/api/v1/jobs?phase=waiting&page_size=4"
    while address:
        page = client.get(address).json()
        seen += [row["id"] for row in page["results"]]
        before, address = page["previous"], page["next"]
    assert seen == made[::-1]
    assert [row["id"] for row in client.get(before).json()["results"]] == seen[4:8]


def test_phases_and_kinds_are_chosen_and_wrong_ones_named(owner: Membership):
    run, batch = MAKERS["training_runs"](owner.workspace), MAKERS["imports"](owner.workspace)
    taken = lifecycle.claim(kind_of_job(batch), batch.pk, worker="here:1")
    assert taken is not None
    lifecycle.fail(taken, Failure("data", "It is no JSON."))
    client = api(owner)
    [failed] = client.get("/api/v1/jobs?phase=failed&phase=stopping").json()["results"]
    assert (failed["kind"], failed["error"], failed["attempt"]) == ("imports", "It is no JSON.", 1)
    assert [row["id"] for row in client.get("/api/v1/jobs?kind=training_runs").json()["results"]] == [str(run.pk)]
    for query in ("phase=asleep", "kind=errands", "cursor=yesterday"):
        answer = client.get(f"/api/v1/jobs?{query}")
        assert (answer.status_code, list(answer.json()["fields"])) == (400, [query.partition("=")[0]])


def test_a_job_is_cancelled_and_resumed_once(owner: Membership):
    run = factories.run(of=owner.workspace)
    client = api(owner)
    cancelled = client.post(f"/api/v1/jobs/training_runs/{run.pk}/cancel")
    assert (cancelled.status_code, cancelled.json()["phase"]) == (200, "cancelled")
    assert client.post(f"/api/v1/jobs/training_runs/{run.pk}/cancel").status_code == 409
    assert client.post(f"/api/v1/jobs/training_runs/{run.pk}/resume").json()["phase"] == "waiting"
    again = client.post(f"/api/v1/jobs/training_runs/{run.pk}/resume")
    assert again.json() == {"detail": "This training run is queued; only a cancelled or failed one can be resumed."}
    version = MAKERS["versions"](owner.workspace)
    assert client.post(f"/api/v1/jobs/versions/{version.pk}/cancel").status_code == 409


@pytest.mark.parametrize("role", [Role.RESEARCHER, Role.REVIEWER, Role.ANNOTATOR, None])
def test_nobody_else_finds_anything(owner: Membership, role: Role | None):
    run = factories.run(of=owner.workspace)
    client = api(factories.member(role, of=owner.workspace) if role else factories.member(Role.OWNER))
    listed = client.get("/api/v1/jobs")
    assert listed.status_code == 404 if role else listed.json()["results"] == []
    for action in ("cancel", "resume"):
        assert client.post(f"/api/v1/jobs/training_runs/{run.pk}/{action}").status_code == 404
    assert client.post(f"/api/v1/jobs/errands/{uuid4()}/cancel").status_code == 404


def test_more_jobs_need_no_more_queries(owner: Membership):
    client = api(owner)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get("/api/v1/jobs").status_code == 200
        return len(captured)

    for make in MAKERS.values():
        make(owner.workspace)
    queries()  # the token is remembered as used
    few = queries()
    for make in MAKERS.values():
        for _ in range(3):
            make(owner.workspace)
    assert queries() == few
