"""Labeling many trajectories at once, if their number is as displayed; undone as a whole."""

from datetime import timedelta
from threading import Thread
from time import sleep
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection, transaction
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Membership, Role
from apps.annotation.bulk import labels
from apps.annotation.bulk.labels import CountChanged, NothingSelected, TooMany, label_all
from apps.annotation.bulk.undo import AlreadyUndone, undo_bulk_act
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.kinds.answers import Scores
from apps.annotation.models import Adjudication, Assignment, BulkAct, Desk, Item, Queue, Rating
from apps.annotation.queues.overlap import raise_overlap
from apps.annotation.queues.sources import Selection
from apps.annotation.review.adjudication import adjudicate
from apps.trajectories.filters import Filters
from apps.trajectories.models import Trajectory
from tests import factories
from tests.accounts.clients import as_
from tests.locks import somebody_waits

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


def runs_of(member: Membership, count: int, **fields: Any) -> list[Trajectory]:
    return [factories.trajectory(of=factories.task(of=member.workspace), **fields) for _ in range(count)]


FAILURES = Selection(filter="outcome=failure")


def test_a_long_filter_is_read_whole() -> None:
    wanted = Filters(q="東" * 300, tag="kept")
    assert len(wanted.query) > 2_000
    assert Selection.from_query(QueryDict(urlencode({"filter": wanted.query}))).filter == wanted.query


def test_all_that_a_filter_finds_get_the_label_and_nothing_else_does(researcher: Membership) -> None:
    failed = runs_of(researcher, 3, success=False)
    runs_of(researcher, 1, success=True)
    factories.trajectory(of=factories.task(), success=False)  # of another workspace
    act = label_all(member=researcher, selection=FAILURES, thumb=-1, seen=3, reason="They gave up.")
    ratings = Rating.objects.valid()
    assert {rating.item.a_id for rating in ratings} == {run.pk for run in failed}
    assert {(r.thumb, r.rationale, r.annotator.user_id) for r in ratings} == {(-1, "They gave up.", researcher.user_id)}
    queue = Queue.objects.get()
    assert (act.queue, act.count, act.words) == (queue, 3, "Labeled 3 trajectories as bad")
    assert (queue.state, queue.item_count) == ("closed", 3)
    assert list(Item.objects.values_list("taken", "judged", "overlap").distinct()) == [(1, 1, 1)]
    assert Desk.objects.get().judged == 3


def test_an_undone_label_leaves_no_standing_judgment_and_counts_nothing(researcher: Membership) -> None:
    runs_of(researcher, 3, success=False)
    act = label_all(member=researcher, selection=FAILURES, thumb=-1, seen=3)
    rating = Rating.objects.order_by("pk").first()
    assert rating is not None
    adjudicate(item=rating.item, by=researcher.user, blind=False, strength=None, upheld=rating.pk, reason="Yes.")
    undo_bulk_act(act=act, by=researcher.user)
    assert not Rating.objects.valid().exists()
    assert Rating.objects.count() == 3
    assert list(Item.objects.values_list("taken", "judged").distinct()) == [(0, 0)]
    assert set(Assignment.objects.values_list("state", flat=True)) == {"undone"}
    assert Desk.objects.get().judged == 0
    assert not rating.item.adjudications.filter(retracted_at=None).exists()
    with pytest.raises(AlreadyUndone):
        undo_bulk_act(act=act, by=researcher.user)


def test_labels_are_undone_although_the_databases_clock_is_behind(
    researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs_of(researcher, 1, success=False)
    monkeypatch.setattr(labels, "now", lambda: now() + timedelta(seconds=5))
    act = label_all(member=researcher, selection=FAILURES, thumb=-1, seen=1)
    undo_bulk_act(act=act, by=researcher.user)
    assert not Rating.objects.valid().exists()


def test_where_others_disagree_an_undone_label_leaves_the_dispute(researcher: Membership) -> None:
    runs_of(researcher, 2, success=False)
    act = label_all(member=researcher, selection=FAILURES, thumb=-1, seen=2)
    queue = Queue.objects.get()
    Queue.objects.update(state=Queue.State.OPEN)
    raise_overlap(queue=queue, overlap=3)
    Queue.objects.update(overlap=3)
    queue.refresh_from_db()
    for thumbs in ([1, 1], [1, -1]):  # both items are disputed; without the label, only the second one
        annotator = annotator_of(factories.member(of=researcher.workspace))
        for thumb in thumbs:
            assignment = next_assignment(queue=queue, annotator=annotator)
            assert assignment is not None
            record(assignment=assignment, answer=Scores(thumb=thumb))
    assert list(Item.objects.values_list("disputed", flat=True)) == [True, True]
    undo_bulk_act(act=act, by=researcher.user)
    assert list(Item.objects.order_by("position").values_list("disputed", flat=True)) == [False, True]


@pytest.mark.django_db(transaction=True)
def test_a_decision_that_is_being_made_goes_with_the_label_that_it_upholds(researcher: Membership) -> None:
    runs_of(researcher, 1, success=False)
    act = label_all(member=researcher, selection=FAILURES, thumb=-1, seen=1)
    rating = Rating.objects.get()

    def undo() -> None:
        try:
            undo_bulk_act(act=act, by=researcher.user)
        finally:
            connection.close()

    undoing = Thread(target=undo)
    with transaction.atomic():
        adjudicate(item=rating.item, by=researcher.user, blind=False, strength=None, upheld=rating.pk, reason="Yes.")
        undoing.start()
        while undoing.is_alive() and not somebody_waits():
            sleep(0.01)
    undoing.join()
    assert not Rating.objects.valid().exists()
    assert not Adjudication.objects.valid().exists()


def test_nothing_is_labeled_where_another_number_matches_than_was_shown(researcher: Membership) -> None:
    runs_of(researcher, 2, success=False)
    with pytest.raises(CountChanged, match="1 trajectories were shown, and 2 match now"):
        label_all(member=researcher, selection=FAILURES, thumb=1, seen=1)
    assert not Queue.objects.exists()


def test_too_many_and_none_at_all_are_refused(researcher: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NothingSelected):
        label_all(member=researcher, selection=FAILURES, thumb=1, seen=1)
    runs_of(researcher, 2, success=False)
    monkeypatch.setattr(labels, "MAX_TRAJECTORIES", 1)
    with pytest.raises(TooMany):
        label_all(member=researcher, selection=FAILURES, thumb=1, seen=2)


def test_the_page_shows_how_many_it_will_label_and_offers_to_undo_it(researcher: Membership) -> None:
    runs_of(researcher, 2, success=False)
    web = as_(researcher)
    page = web.get(reverse("annotation:label_all"), {"filter": "outcome=failure"}).content.decode()
    assert "<h1>Label 2 trajectories</h1>" in page
    sent = {"filter": "outcome=failure", "thumb": "-1", "seen": "2"}
    runs_of(researcher, 1, success=False)
    refused = web.post(reverse("annotation:label_all"), sent)
    assert (refused.status_code, "3 match now" in refused.content.decode()) == (422, True)
    done = web.post(reverse("annotation:label_all"), {**sent, "seen": "3"}, follow=True)
    undo = reverse("annotation:undo_bulk_act", args=[BulkAct.objects.get().pk])
    assert f'action="{undo}"' in done.content.decode()
    undone = web.post(undo, follow=True).content.decode()
    assert f'action="{undo}"' not in undone
    assert not Rating.objects.valid().exists()


def test_where_nothing_can_be_labeled_the_page_leads_back_to_the_filter(
    researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown() -> str:
        return as_(researcher).get(reverse("annotation:label_all"), {"filter": "outcome=failure"}).content.decode()

    back = f'<a class="button primary" href="{reverse("trajectories:list")}?outcome=failure">'
    assert f"{back}Change the filter</a>" in shown()
    runs_of(researcher, 2, success=False)
    assert back not in shown()
    monkeypatch.setattr("apps.annotation.views.bulk.MAX_TRAJECTORIES", 1)
    page = shown()
    assert f"{back}Narrow the filter</a>" in page
    assert "All of them get the same label" not in page


def test_bulk_labels_over_rest(researcher: Membership, client: Client) -> None:
    runs = runs_of(researcher, 2, success=False)
    key = {"Authorization": f"Bearer {issue_token(membership=researcher, name='t').secret}"}

    def send(name: str, *args: Any, **body: Any) -> Any:
        return client.post(reverse(name, args=args), body, content_type="application/json", headers=key)

    assert send("v1:bulk_labels", filter="outcome=failure", thumb=1, count=5).status_code == 409
    assert list(send("v1:bulk_labels", filter="outcome=bad", thumb=1, count=5).json()["fields"]) == ["filter"]
    misspelled = send("v1:bulk_labels", filter="outcom=failure", thumb=1, count=2)  # would match everything
    assert misspelled.json()["fields"]["filter"][0].startswith("“outcom” isn't a filter; known: q, task,")
    made = send("v1:bulk_labels", trajectories=[str(runs[0].pk)], thumb=1, count=1).json()
    assert (made["kind"], made["count"], made["undone_at"]) == ("label", 1, None)
    assert [act["id"] for act in client.get(reverse("v1:bulk_acts"), headers=key).json()["results"]] == [made["id"]]
    assert send("v1:bulk_act_undo", made["id"]).json()["undone_at"]
    assert send("v1:bulk_act_undo", made["id"]).status_code == 409
