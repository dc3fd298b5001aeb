"""Deletions on pages and over REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import Membership, Role
from apps.common.ids import new_id
from apps.removal import removal_job
from apps.removal.models import Removal
from apps.trajectories.models import Trajectory
from tests import factories
from tests.accounts.clients import as_
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(monkeypatch: pytest.MonkeyPatch) -> Membership:
    monkeypatch.setattr("apps.jobs.lifecycle.enqueue", lambda *_: None)
    return factories.member(Role.RESEARCHER, name="Ada")


def api(member: Membership) -> Client:
    return Client(headers={"Authorization": f"Bearer {factories.token(member)}"})


def send(client: Client, address: str, thing: str, target: Any) -> Any:
    body = {"thing": thing, "target": str(target.pk)}
    return client.post(f"/api/v1/{address}", body, content_type="application/json")


def test_the_page_says_what_would_go_and_how_it_went(ada: Membership) -> None:
    run = factories.imported_run(
        [{"context": [], "message": {"role": "assistant", "content": "Hi."}}], of=ada.workspace
    )
    client = as_(ada)
    assert f"/delete/trajectory/{run.pk}/" in client.get(f"/trajectories/{run.pk}/").text
    page = client.get(f"/delete/trajectory/{run.pk}/")
    assert "Delete permanently" in page.text
    assert "steps" in page.text
    sent = client.post(f"/delete/trajectory/{run.pk}/")
    removal = Removal.objects.get()
    assert sent["Location"] == f"/deletions/{removal.pk}/"
    assert "A worker is deleting it." in client.get(sent["Location"]).text
    removal_job.remove(removal.pk)
    assert "It's deleted." in client.get(sent["Location"]).text
    assert client.get(f"/delete/trajectory/{run.pk}/").status_code == 404


def test_the_page_links_what_rests_on_it_and_offers_no_button(ada: Membership) -> None:
    queue = builders.queue(of=ada.workspace, name="Orders")
    address = f"/delete/trajectory/{queue.items.get().a_id}/"
    client = as_(ada)
    page = client.get(address)
    assert f'<a href="/queues/{queue.pk}/">queue Orders has it as an item</a>' in page.text
    assert "Delete permanently" not in page.text
    assert client.post(address).status_code == 409
    assert not Removal.objects.exists()


def test_a_kind_of_thing_that_is_none_and_a_thing_of_another_workspace_are_not_there(ada: Membership) -> None:
    run = factories.trajectory()
    client = as_(ada)
    assert client.get(f"/delete/user/{run.pk}/").status_code == 404
    assert client.post(f"/delete/trajectory/{run.pk}/").status_code == 404
    assert send(api(ada), "deletions", "trajectory", run).status_code == 404
    assert Trajectory.objects.filter(pk=run.pk).exists()


def test_over_rest_it_is_previewed_asked_for_and_followed(ada: Membership) -> None:
    run = factories.trajectory(of=factories.task(of=ada.workspace))
    client = api(ada)
    foreseen = send(client, "deletions/preview", "trajectory", run).json()
    assert (foreseen["blockers"], foreseen["has_more"], foreseen["goes"]["trajectories"]) == ([], False, 1)
    response = send(client, "deletions", "trajectory", run)
    assert (response.status_code, response.json()["state"]) == (202, "waiting")
    removal_job.remove(Removal.objects.get().pk)
    done = client.get(f"/api/v1/deletions/{response.json()['id']}").json()
    assert (done["state"], done["removed"], done["error"]) == ("done", foreseen["goes"], "")
    assert [row["id"] for row in client.get("/api/v1/deletions").json()["results"]] == [done["id"]]


def test_over_rest_a_refusal_names_what_rests_on_it(ada: Membership) -> None:
    queue = builders.queue(of=ada.workspace, name="Orders")
    client = api(ada)
    answer = send(client, "deletions", "queue", queue)
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "It can't be deleted: it is open: pause or close it first.",
    )
    [blocker] = send(client, "deletions/preview", "queue", queue).json()["blockers"]
    assert blocker == {"words": "it is open: pause or close it first", "page": f"/queues/{queue.pk}/"}


def test_reviewers_delete_nothing(ada: Membership) -> None:
    run = factories.trajectory(of=factories.task(of=ada.workspace))
    reviewer = factories.member(Role.REVIEWER, of=ada.workspace)
    assert as_(reviewer).post(f"/delete/trajectory/{run.pk}/").status_code == 404
    assert "/delete/" not in as_(reviewer).get(f"/trajectories/{run.pk}/").text
    assert send(api(reviewer), "deletions", "trajectory", run).status_code == 404


def test_the_page_of_a_rules_deletion_says_who_requested_it_and_what_is_gone(ada: Membership) -> None:
    removal = Removal.objects.create(
        workspace=ada.workspace, thing="expired", target=new_id(), title="gateway, 90 days"
    )
    client, page = as_(ada), f"/deletions/{removal.pk}/"
    assert "Requested by a retention rule" in client.get(page).text
    Removal.objects.update(state="done")
    shown = client.get(page).text
    assert ("Nothing was deleted" in shown, "It was already deleted." in shown) == (True, False)
    Removal.objects.update(state="cancelled", removed={"trajectories": 200})
    shown = client.get(page).text
    assert ("Nothing was deleted" in shown, "<td>trajectories</td>" in shown) == (False, True)
