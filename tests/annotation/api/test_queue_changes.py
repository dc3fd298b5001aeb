"""Creating queues and changing their settings over REST."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import AuditEntry, Membership, Role
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.kinds.questions import PairwiseAsks
from apps.annotation.models import Item, Queue
from apps.trajectories.models import Trajectory
from contract.questions import Question
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db


class Api:
    """An API client with a member's token."""

    def __init__(self, member: Membership) -> None:
        self.client = Client(headers={"Authorization": f"Bearer {factories.token(member)}"})

    def get(self, address: str) -> Any:
        return self.client.get(f"/api/v1/{address}").json()

    def post(self, address: str, **fields: object) -> Any:
        return self.client.post(f"/api/v1/{address}", fields, content_type="application/json")


@pytest.fixture
def ada() -> Membership:
    return factories.member(Role.RESEARCHER, name="Ada")


@pytest.fixture
def queue(ada: Membership) -> Queue:
    return builders.queue(of=ada.workspace, items=2, steps=0)


@pytest.fixture
def api(ada: Membership) -> Api:
    return Api(ada)


def test_only_what_is_sent_is_changed(api: Api, queue: Queue, ada: Membership) -> None:
    before = api.get(f"queues/{queue.pk}/settings")
    answer = api.post(f"queues/{queue.pk}/settings", name="Orders", labelers=[ada.user.email.upper()], ends_after=7)
    assert answer.status_code == 200
    expected = {**before, "name": "Orders", "labelers": [ada.user.email], "ends_after": 7}
    assert answer.json() == api.get(f"queues/{queue.pk}/settings") == expected
    entry = AuditEntry.objects.get(action="changed settings of")
    assert (entry.actor, entry.detail["name"][1]) == (ada.user, "Orders")
    opened = api.post(f"queues/{queue.pk}/settings", labelers=None, ends_after=None)
    assert (opened.json()["labelers"], opened.json()["ends_after"]) == (None, None)


def test_a_layout_and_questions_can_be_given(api: Api, ada: Membership) -> None:
    questions = (Question(key="safe", name="Safety", type="comparison", points=3),)
    queue = builders.queue(of=ada.workspace, steps=0, asks=PairwiseAsks(questions=questions))
    changed = api.post(
        f"queues/{queue.pk}/settings",
        layout={"text": "large"},
        questions=[questions[0].to_json(), {"name": "Why?", "type": "text"}],
    ).json()
    assert changed["layout"] == {"text": "large"}
    assert [question["name"] for question in changed["questions"]] == ["Safety", "Why?"]
    kept = api.post(f"queues/{queue.pk}/settings", name="Renamed").json()
    assert (kept["layout"], kept["questions"]) == (changed["layout"], changed["questions"])


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"overlap": 1}, "overlap"),
        ({"labelers": []}, "labelers"),
        ({"labelers": ["nobody@example.org"]}, "labelers"),
        ({"layout": {"colour": "red"}}, "layout"),
        ({"title": "x"}, "title"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(api: Api, ada: Membership, fields: dict[str, Any], field: str) -> None:
    queue = builders.queue(of=ada.workspace, steps=0, overlap=2)
    answer = api.post(f"queues/{queue.pk}/settings", **fields)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    assert not AuditEntry.objects.filter(action="changed settings of").exists()


def test_a_queue_is_paused_resumed_and_closed(api: Api, queue: Queue) -> None:
    states = [api.post(f"queues/{queue.pk}/{act}").json()["state"] for act in ("pause", "resume", "close", "resume")]
    assert states == ["paused", "open", "closed", "open"]
    api.post(f"queues/{queue.pk}/pause")
    assert api.post(f"queues/{queue.pk}/pause").status_code == 409


def test_guidelines_get_versions_and_the_same_text_adds_none(api: Api, queue: Queue) -> None:
    for text in ("One.", "Two.", "Two."):
        assert api.post(f"queues/{queue.pk}/guidelines", text=text).status_code == 201
    listed = api.get(f"queues/{queue.pk}/guidelines")["results"]
    assert [(version["version"], version["text"]) for version in listed] == [(2, "Two."), (1, "One.")]


def test_items_are_listed_in_order_and_made_gold(api: Api, queue: Queue) -> None:
    first, second = api.get(f"queues/{queue.pk}/items")["results"]
    assert (first["position"], first["purpose"], first["judged"]) == (0, "work", 0)
    known = f"queues/{queue.pk}/items/{second['id']}/known"
    assert list(api.post(known, purpose="gold").json()["fields"]) == ["answer"]
    made = api.post(known, purpose="gold", answer="-1", because="It burned.").json()
    assert made["purpose"] == "gold"
    assert Item.objects.get(pk=second["id"]).known == {"answer": -1, "because": "It burned."}
    assert api.post(known, purpose="work").json()["purpose"] == "work"


def test_gold_is_drawn_from_outcomes(api: Api, ada: Membership) -> None:
    queue = builders.queue(of=ada.workspace, steps=0)
    item = queue.items.get()
    Trajectory.objects.filter(pk=item.a_id).update(success=None)
    assert api.post(f"queues/{queue.pk}/gold", count=5).status_code == 409
    Trajectory.objects.filter(pk=item.a_id).update(success=True)
    assert api.post(f"queues/{queue.pk}/gold", count=5).json()["gold_count"] == 1


def test_whether_it_is_disputed_is_not_told_of_an_item_on_the_own_desk(queue: Queue, ada: Membership) -> None:
    reviewer = factories.member(Role.REVIEWER, of=ada.workspace)
    held = next_assignment(queue=queue, annotator=annotator_of(reviewer))
    assert held is not None
    listed = {row["id"]: row["disputed"] for row in Api(reviewer).get(f"queues/{queue.pk}/items")["results"]}
    assert (listed.pop(held.item_id), list(listed.values())) == (None, [False])


def test_an_item_is_skipped_and_the_last_act_undone(api: Api, queue: Queue) -> None:
    first = api.post(f"queues/{queue.pk}/next").json()
    assert api.post(f"assignments/{first['id']}/skip", reason="Unclear.").json() == {"assignment": first["id"]}
    second = api.post(f"queues/{queue.pk}/next").json()
    assert api.post(f"assignments/{second['id']}/judgment", answer="2").status_code == 201
    again = api.post(f"queues/{queue.pk}/undo").json()
    assert (again["runs"], again["id"] != second["id"]) == (second["runs"], True)
    assert api.get(f"queues/{queue.pk}/preferences")["results"] == []


def test_a_kind_that_is_null_is_the_default(ada: Membership, queue: Queue) -> None:
    made = Api(ada).post("queues", name="Pairs", kind=None)
    assert (made.status_code, made.json()["kind"]) == (201, "pairwise")
