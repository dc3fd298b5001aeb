"""Review over REST."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import Role, Workspace
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.kinds.answers import Choice, Scores
from apps.annotation.models import Adjudication, Preference, Queue
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


class Api:
    """An API client with a member's token."""

    def __init__(self, role: Role | None, workspace: Workspace) -> None:
        member = factories.member(role, of=workspace) if role else factories.member(Role.OWNER)
        self.client = Client(headers={"Authorization": f"Bearer {factories.token(member)}"})

    def get(self, address: str, **query: object) -> Any:
        return self.client.get(address, query).json()

    def post(self, address: str, **body: object) -> Any:
        return self.client.post(address, body, content_type="application/json")


@pytest.fixture
def reviewer(workspace: Workspace) -> Api:
    return Api(Role.REVIEWER, workspace)


def disputed_queue(workspace: Workspace, items: int = 1) -> Queue:
    """Two rules disagree about every pair."""
    queue = builders.queue(of=workspace, items=items, overlap=2, steps=0)
    for strength in (2, -1):
        who = builders.rule(of=workspace)
        while assignment := next_assignment(queue=queue, annotator=who):
            record(assignment=assignment, answer=Choice(strength))
    return queue


def at(queue: Queue, what: str) -> str:
    return f"/api/v1/queues/{queue.pk}/{what}"


def test_disputed_items_come_in_the_queues_order_until_they_are_decided(reviewer, workspace):
    queue = disputed_queue(workspace, items=3)
    first, second, third = queue.items.order_by("position")
    listed = reviewer.get(at(queue, "disputed"), page_size=2)
    assert [row["id"] for row in listed["results"]] == [first.pk, second.pk]
    assert listed["results"][0] == {
        "id": first.pk,
        "position": 0,
        "task": first.task.key,
        "a": str(first.a_id),
        "b": str(first.b_id),
        "judgments": [
            str(pk) for pk in Preference.objects.filter(item=first).order_by("pk").values_list("pk", flat=True)
        ],
    }
    assert [row["id"] for row in reviewer.client.get(listed["next"]).json()["results"]] == [third.pk]

    made = reviewer.post(at(queue, "adjudications"), item=second.pk, strength=-2, reason="It paid twice.")
    assert made.status_code == 201
    assert (made.json()["strength"], made.json()["was_blind"]) == (-2, False)
    assert [row["id"] for row in reviewer.get(at(queue, "disputed"))["results"]] == [first.pk, third.pk]


def test_a_later_decision_replaces_the_one_before(reviewer, workspace):
    queue = disputed_queue(workspace)
    item = queue.items.get().pk
    reviewer.post(at(queue, "adjudications"), item=item, strength=1, reason="It asked first.")
    reviewer.post(at(queue, "adjudications"), item=item, both_bad=True, reason="Neither paid.")
    (holding,) = reviewer.get(at(queue, "adjudications"))["results"]
    assert (holding["strength"], holding["both_bad"], holding["reason"]) == (0, True, "Neither paid.")
    assert Adjudication.objects.count() == 2


def test_of_a_single_run_a_judgment_is_upheld(reviewer, workspace):
    queue = builders.queue_of_trajectories(Queue.Kind.RATING, of=workspace, overlap=2)
    for thumb in (1, -1):
        held = next_assignment(queue=queue, annotator=builders.rule(of=workspace))
        record(assignment=held, answer=Scores(thumb=thumb))
    (row,) = reviewer.get(at(queue, "disputed"))["results"]
    assert row["b"] is None
    made = reviewer.post(
        at(queue, "adjudications"), item=row["id"], upheld=row["judgments"][1], reason="It deleted it."
    )
    assert made.json()["upheld"] == row["judgments"][1]
    gone = reviewer.post(at(queue, "adjudications"), item=row["id"], upheld=str(queue.pk), reason="Because")
    assert gone.status_code == 409
    assert "judgment of this item was withdrawn" in gone.json()["detail"]


@pytest.mark.parametrize(
    ("decision", "field", "words"),
    [
        ({"strength": 2}, "reason", "This field is required"),
        ({"strength": 4, "reason": "Because"}, "strength", "Give 3 or less"),
        ({"reason": "Because"}, "strength", "Give a grade from -3 to 3"),
        ({"strength": 1, "both_bad": True, "reason": "Because"}, "strength", "without one"),
        ({"upheld": "00000000-0000-0000-0000-000000000000", "reason": "Because"}, "upheld", "judgment of a pair"),
        ({"item": 0, "strength": 1, "reason": "Because"}, "item", "There is no item 0 in this queue."),
    ],
)
def test_what_decides_nothing_is_refused_by_field(reviewer, workspace, decision, field, words):
    queue = disputed_queue(workspace)
    answer = reviewer.post(at(queue, "adjudications"), **{"item": queue.items.get().pk, **decision})
    assert answer.status_code == 400
    assert words in answer.json()["fields"][field][0]
    assert not Adjudication.objects.exists()


def test_an_item_of_another_queue_or_without_a_judgment_cannot_be_decided(reviewer, workspace):
    queue, unjudged = disputed_queue(workspace), builders.queue(of=workspace, steps=0)
    item = unjudged.items.get().pk
    assert reviewer.post(at(queue, "adjudications"), item=item, strength=1, reason="Because").status_code == 400
    assert reviewer.post(at(unjudged, "adjudications"), item=item, strength=1, reason="Because").status_code == 409


@pytest.mark.parametrize("role", [None, Role.ANNOTATOR], ids=["outsider", "annotator"])
def test_nobody_else_reviews(workspace, role):
    queue, somebody = disputed_queue(workspace), Api(role, workspace)
    decision = {"item": queue.items.get().pk, "strength": 1, "reason": "Because"}
    assert somebody.client.get(at(queue, "disputed")).status_code == 404
    assert somebody.client.get(at(queue, "adjudications")).status_code == 404
    assert somebody.post(at(queue, "adjudications"), **decision).status_code == 404
    assert not Adjudication.objects.exists()
