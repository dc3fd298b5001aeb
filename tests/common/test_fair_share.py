"""Slow requests of one person, or of one workspace, leave the rest of a process to everybody else."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event, Thread
from time import sleep
from typing import Any

import pytest
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.models import Preference
from apps.common import fair_share
from apps.common.fair_share import (
    AT_ONCE,
    MAX_WAITING,
    WORKSPACE_AT_ONCE,
    FairShare,
    of_long_requests,
    of_person,
    of_workspace,
)
from apps.common.ids import new_id
from apps.common.limits import TooManyTries
from apps.gateway.models import Session
from tests import factories
from tests.annotation import builders


@pytest.mark.django_db
def test_who_has_enough_under_way_waits_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = FairShare()
    for _ in range(AT_ONCE):
        shares.enter(of_person(1))
    shares.enter(of_person(2))
    entered = Event()
    waiting = Thread(target=lambda: (shares.enter(of_person(1)), entered.set()))
    waiting.start()
    shares.leave(of_person(2))
    assert not entered.is_set()
    shares.leave(of_person(1))
    waiting.join(10)
    assert entered.is_set()


@pytest.mark.django_db  # a waiting request releases its connection
def test_who_waits_too_long_or_in_too_many_requests_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "WAIT_SECONDS", 0.01)
    shares = FairShare()
    for _ in range(AT_ONCE):
        shares.enter(of_person(1))
    with pytest.raises(TooManyTries):
        shares.enter(of_person(1))
    monkeypatch.setattr(fair_share, "MAX_WAITING", 0)
    monkeypatch.setattr(fair_share, "WAIT_SECONDS", 60.0)
    with pytest.raises(TooManyTries):
        shares.enter(of_person(1))
    for _ in range(AT_ONCE):
        shares.leave(of_person(1))
    shares.enter(of_person(1))


@pytest.mark.django_db
def test_many_people_of_one_workspace_leave_the_rest_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "WORKSPACE_MAX_WAITING", 1)
    shares, crowded = FairShare(), new_id()
    people = iter(range(100))
    for _ in range(WORKSPACE_AT_ONCE):
        shares.enter(of_person(next(people)), of_workspace(crowded))
    entered = Event()
    waiting = Thread(target=lambda: (shares.enter(of_person(next(people)), of_workspace(crowded)), entered.set()))
    waiting.start()
    while not shares._line:
        sleep(0.01)
    with pytest.raises(TooManyTries):
        shares.enter(of_person(next(people)), of_workspace(crowded))
    shares.enter(of_person(next(people)), of_workspace(new_id()))
    assert not entered.is_set()
    shares.leave(of_person(0), of_workspace(crowded))
    waiting.join(10)
    assert entered.is_set()


@pytest.mark.django_db
def test_a_workspace_has_its_share_over_pages_and_rest_together(monkeypatch: pytest.MonkeyPatch) -> None:
    owner, other = factories.member(Role.OWNER), factories.member(Role.OWNER)
    monkeypatch.setattr(fair_share, "SHARES", shares := FairShare())
    monkeypatch.setattr(fair_share, "WORKSPACE_MAX_WAITING", 0)
    for person in range(WORKSPACE_AT_ONCE):
        shares.enter(of_person(-person), of_workspace(owner.workspace_id))
    for member, status in ((owner, 429), (other, 200)):
        client = Client()
        client.force_login(member.user)
        token = {"authorization": f"Bearer {factories.token(member)}"}
        assert client.get("/").status_code == status
        assert Client(headers=token).get("/api/v1/jobs").status_code == status


def test_neither_people_nor_workspaces_get_all_connections_and_threads(settings: Any) -> None:
    from apps.common.request_threads import MAX_AT_ONCE

    connections = settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]
    assert connections >= 2 * AT_ONCE
    assert connections > WORKSPACE_AT_ONCE
    assert AT_ONCE + MAX_WAITING < WORKSPACE_AT_ONCE + fair_share.WORKSPACE_MAX_WAITING < MAX_AT_ONCE


def long_pages(member: Membership) -> dict[str, Callable[[], HttpResponse]]:
    """Every request that shows the trajectories of an item, in a new queue."""
    queue = builders.queue(of=member.workspace, items=2)
    client = Client()
    client.force_login(member.user)
    api = Client(headers={"authorization": f"Bearer {factories.token(member)}"})
    assignment = next_assignment(queue=queue, annotator=annotator_of(member))
    assert assignment is not None
    item = assignment.item
    pages = {
        "desk": reverse("annotation:desk", args=[queue.pk]),
        "item": reverse("annotation:item", args=[assignment.pk]),
        "rows": reverse("annotation:rows", args=[assignment.pk, 0]),
        "review": reverse("annotation:review_item", args=[queue.pk, item.pk]),
        "rows in review": reverse("annotation:review_rows", args=[queue.pk, item.pk, 0]),
        "comparison": reverse("trajectories:compare", args=[item.a_id, item.b_id]),
    }
    htmx = {"hx-request": "true"}
    requests = {name: partial(client.get, page, headers=htmx) for name, page in pages.items()}
    requests["next"] = partial(client.post, reverse("annotation:next", args=[queue.pk]))
    requests["REST"] = partial(api.post, f"/api/v1/queues/{queue.pk}/next")
    answer = {"answer": "2", "next": "1"}
    judge = reverse("annotation:judge", args=[assignment.pk])
    return {**requests, "judge": partial(client.post, judge, answer, headers={"accept": "application/json"})}


@pytest.mark.django_db
def test_one_long_item_of_a_workspace_is_shown_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    researcher, other = factories.member(Role.RESEARCHER), factories.member(Role.RESEARCHER)
    monkeypatch.setattr(fair_share, "SHARES", shares := FairShare())
    monkeypatch.setattr(fair_share, "WAIT_SECONDS", 0.01)
    waiting, others = long_pages(researcher), long_pages(other)
    shares.enter(of_long_requests(of_workspace(researcher.workspace_id)))
    assert waiting["desk"]().status_code == 200  # it's short
    monkeypatch.setattr(fair_share, "LONG_STEPS", 3)
    judge = waiting.pop("judge")
    assert {name: request().status_code for name, request in waiting.items()} == dict.fromkeys(waiting, 429)
    assert {name: request().status_code for name, request in others.items()} == dict.fromkeys(others, 200)
    assert (judge().json(), Preference.objects.filter(workspace=researcher.workspace).count()) == ({}, 1)
    shares.leave(of_long_requests(of_workspace(researcher.workspace_id)))
    assert waiting["desk"]().status_code == 200
    assert not shares._under_way


@pytest.mark.django_db
def test_one_long_item_of_a_person_is_shown_at_a_time_in_however_many_workspaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    researcher = factories.member(Role.RESEARCHER)
    monkeypatch.setattr(fair_share, "SHARES", shares := FairShare())
    monkeypatch.setattr(fair_share, "WAIT_SECONDS", 0.01)
    pages = long_pages(researcher)
    monkeypatch.setattr(fair_share, "LONG_STEPS", 3)
    pages.pop("judge")
    shares.enter(of_long_requests(of_person(researcher.user_id)))
    assert {name: request().status_code for name, request in pages.items()} == dict.fromkeys(pages, 429)


@pytest.mark.django_db(transaction=True)
def test_requests_that_wait_for_a_row_hold_up_nobody_else() -> None:
    """All of them would hold a connection until the row is free, and there are few connections."""
    researcher, other = factories.member(Role.RESEARCHER), factories.member(Role.OWNER)
    session = factories.session(of=researcher.workspace)
    token = {"authorization": f"Bearer {factories.token(researcher)}"}
    api = Client(headers={"authorization": f"Bearer {factories.token(other)}"})

    def renew(number: int) -> int:
        event = {"key": f"k{number}", "type": "reward", "value": 1}
        path = f"/api/v1/sessions/{session.pk}/events"
        status = Client(headers=token).post(path, event, content_type="application/json").status_code
        connection.close()
        return status

    with ThreadPoolExecutor(12) as threads:
        with transaction.atomic():
            Session.objects.select_for_update().get(pk=session.pk)
            sent = [threads.submit(renew, number) for number in range(12)]
            with ThreadPoolExecutor(1) as another:

                def ask() -> int:
                    status = api.get("/api/v1/jobs").status_code
                    connection.close()
                    return status

                assert [another.submit(ask).result(60) for _ in range(3)] == [200, 200, 200]
        assert {future.result(60) for future in sent} == {201}


@pytest.mark.django_db
def test_a_page_beyond_the_share_says_when_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    member = factories.member(Role.OWNER)
    monkeypatch.setattr(fair_share, "SHARES", shares := FairShare())
    monkeypatch.setattr(fair_share, "MAX_WAITING", 0)
    client = Client()
    client.force_login(member.user)
    for _ in range(AT_ONCE + 1):  # each ends its share
        assert client.get("/").status_code == 200
    for _ in range(AT_ONCE):
        shares.enter(of_person(member.user_id))
    for path in ("/", "/api/v1/jobs"):
        answer = client.get(path)
        assert (answer.status_code, answer["Retry-After"]) == (429, str(fair_share.RETRY_AFTER))
