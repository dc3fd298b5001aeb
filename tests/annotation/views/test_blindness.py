"""Two worlds that differ only in gold items are indistinguishable to an annotator before they answer."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.kinds.answers import Choice
from apps.annotation.kinds.questions import Alternatives, StepsAsks
from apps.annotation.models import Assignment, Continuation, Desk, Item, Queue
from apps.annotation.review.adjudication import adjudicate
from apps.trajectories.models import Step, Trajectory
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db

ITEMS, GOLD = 10, 3
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PACE = re.compile(r'[\d.,]+(?= m?s\b)|[\d.,]+(?=</span><span class="name">judged per hour)')
"""Elapsed time differs between runs."""
OF_THIS_WORLD = re.compile(
    r'(queue|workspace|person|task|policy|Person|Workspace)(?:[- ]|=")?\d+|"\w{64}"|nonce="[^"]*"|\bn?[0-9a-f]{32}\b|datetime="[^"]*"'
)


def world(golds: int) -> tuple[Queue, Membership, Client]:
    """A queue of ten items that two people each judge, of which some are gold."""
    member = factories.member(Role.ANNOTATOR)
    queue = builders.queue(of=member.workspace, items=ITEMS, steps=0, overlap=2)
    if golds:
        builders.known(queue, Item.Purpose.GOLD, golds)
        Queue.objects.filter(pk=queue.pk).update(gold_percent=50)
    queue.refresh_from_db()
    client = Client()
    client.force_login(member.user)
    return queue, member, client


def seen(queue: Queue, member: Membership, client: Client) -> dict[str, Any]:
    """Everything that an annotator may request, without values that differ between any two queues. Their own page shows times; see `quality.feedback`."""
    token = factories.token(member)
    api = Client(headers={"authorization": f"Bearer {token}"})
    pages = {
        name: client.get(address)
        for name, address in {
            "home": "/",
            "queues": reverse("annotation:queues"),
        }.items()
    }
    rest = {path: api.get(f"/api/v1/{path}") for path in ("queues", f"queues/{queue.pk}")}
    desk = client.get(reverse("annotation:desk", args=[queue.pk])).content.decode()
    progress = re.search(r"<span data-desk-progress.*?</span>", desk)
    assert progress
    headers = {name: sorted(set(answer.headers) - {"Content-Length"}) for name, answer in {**pages, **rest}.items()}
    texts = {name: answer.content.decode() for name, answer in {**pages, **rest}.items()} | {"desk": progress[0]}
    plain = {
        UUID.sub("id", name): OF_THIS_WORLD.sub("", PACE.sub("", UUID.sub("id", text))) for name, text in texts.items()
    }
    for key in (name for name in plain if name.startswith("queues")):
        plain[key] = re.sub(r'"created_at":"[^"]*"', "", plain[key])
    return {**plain, "headers": {UUID.sub("id", name): value for name, value in headers.items()}}


def test_gold_items_change_nothing_that_an_annotator_sees() -> None:
    """Before the first answer and after each one, the item differs, but counts and pages are the same."""
    worlds = [world(0), world(GOLD)]
    for _ in range(ITEMS - GOLD - 1):
        plain, golden = (seen(*world) for world in worlds)
        for name in plain:
            assert golden[name] == plain[name], name
        for queue, member, _client in worlds:
            held = next_assignment(queue=queue, annotator=annotator_of(member))
            assert held is not None
            record(assignment=held, answer=Choice(1 if held.a_is_left else -1), seconds=2.0)
        Desk.objects.update(seconds=10.0)
    assert Item.objects.filter(purpose="gold", judged__gt=0).exists()


def test_an_annotator_is_told_neither_how_many_items_there_are_nor_how_often_each_is_asked_about() -> None:
    queue, member, _ = world(GOLD)
    for who, visible in ((member, set()), (factories.member(Role.REVIEWER, of=member.workspace), COUNTS)):
        api = Client(headers={"authorization": f"Bearer {factories.token(who)}"})
        shown = api.get(f"/api/v1/queues/{queue.pk}").json()
        assert COUNTS & shown.keys() == visible
        assert api.get("/api/v1/queues").json()["results"] == [shown]


COUNTS = {"overlap", "item_count", "items_expected"}


def test_a_reviewer_reads_what_others_said_of_an_item_once_they_answered_it_themselves() -> None:
    """On pages and over the API, whether the judgment is a person's or a model's."""
    reviewer = factories.member(Role.REVIEWER)
    queue = builders.queue(of=reviewer.workspace, items=1, steps=0, overlap=3)
    other = annotator_of(factories.member(Role.ANNOTATOR, of=reviewer.workspace))
    builders.judge(queue, other, 2)
    item = queue.items.get()
    client = Client()
    client.force_login(reviewer.user)
    api = Client(headers={"authorization": f"Bearer {factories.token(reviewer)}"})
    page, rows = reverse("annotation:queue_item", args=[queue.pk, item.pk]), f"/api/v1/queues/{queue.pk}/preferences"
    held = next_assignment(queue=queue, annotator=annotator_of(reviewer))
    assert held is not None
    assert api.get(rows).json()["results"] == []
    assert "on your desk" in client.get(page).content.decode()
    assert other.name not in client.get(page).content.decode()
    assert other.name not in client.get(reverse("annotation:items", args=[queue.pk])).content.decode()
    record(assignment=held, answer=Choice(1))
    assert len(api.get(rows).json()["results"]) == 2
    assert other.name in client.get(page).content.decode()


def test_what_a_model_said_is_no_annotators_to_read() -> None:
    queue, member, client = world(0)
    item = queue.items.first()
    assert item is not None
    api = Client(headers={"authorization": f"Bearer {factories.token(member)}"})
    for path in ("judges", "preferences", "disputed", "adjudications"):
        assert api.get(f"/api/v1/queues/{queue.pk}/{path}").status_code == 404
    for name, args in (("items", [queue.pk]), ("queue_item", [queue.pk, item.pk])):
        assert client.get(reverse(f"annotation:{name}", args=args)).status_code == 404


def test_a_reviewer_is_blind_on_every_page_and_over_rest_until_somebody_decided() -> None:
    """Two annotators disagree about an item with a policy on each side: neither votes nor policies are shown before the decision."""
    reviewer = factories.member(Role.REVIEWER)
    researcher = factories.member(Role.RESEARCHER, of=reviewer.workspace)
    queue = builders.queue(of=reviewer.workspace, items=1, steps=1, overlap=2)
    item = queue.items.get()
    policy = factories.policy(of=reviewer.workspace, name="the-giveaway")
    Trajectory.objects.filter(pk=item.a_id).update(policy=policy)
    ann, ben = (annotator_of(factories.member(Role.ANNOTATOR, of=reviewer.workspace)) for _ in range(2))
    builders.judge(queue, ann, 2)
    client, api = Client(), Client(headers={"authorization": f"Bearer {factories.token(reviewer)}"})
    client.force_login(reviewer.user)
    pages = [
        reverse("annotation:items", args=[queue.pk]),
        reverse("annotation:queue_item", args=[queue.pk, item.pk]),
        reverse("annotation:judgments_of", args=[item.a_id]),
    ]
    rows = f"/api/v1/queues/{queue.pk}/preferences"

    def seen_by(by: Client) -> list[bool]:
        texts = [by.get(page, headers={"HX-Request": "true"}).content.decode() for page in pages]
        return ["clearly" in text or "much better" in text or "the-giveaway" in text for text in texts]

    assert seen_by(client) == [False, False, False]  # the next judgment may make it an item for them to decide
    builders.judge(queue, ben, -3)
    assert seen_by(client) == [False, False, False]
    assert api.get(rows).json()["results"] == []
    as_researcher = Client()
    as_researcher.force_login(researcher.user)
    assert seen_by(as_researcher) == [True, True, True]
    decide = reverse("annotation:review_item", args=[queue.pk, item.pk])
    answer = client.post(decide, {"answer": "1", "reason": "See rule 2."}, follow=True)
    left, right = ("left", "right") if item.pk % 2 else ("right", "left")
    content = answer.content.decode()
    assert "You decided: left slightly better." in content
    assert f"{ann}: {left} clearly better; {ben}: {right} much better." in content
    assert seen_by(client) == [True, True, True]
    assert len(api.get(rows).json()["results"]) == 2
    page = client.get(pages[1]).content.decode()
    assert f"{left} clearly better" in page
    assert f"{right} much better" in page
    assert "Left slightly better</b>" in page


def test_a_reviewer_reads_a_decision_about_an_item_once_they_answered_it_themselves() -> None:
    reviewer = factories.member(Role.REVIEWER)
    queue = builders.queue(of=reviewer.workspace, items=1, steps=0, overlap=3)
    for strength in (2, -2):
        builders.judge(queue, annotator_of(factories.member(Role.ANNOTATOR, of=reviewer.workspace)), strength)
    item = queue.items.get()
    assert item.disputed
    client = Client()
    client.force_login(reviewer.user)
    api = Client(headers={"authorization": f"Bearer {factories.token(reviewer)}"})
    disputed, decisions = (f"/api/v1/queues/{queue.pk}/{name}" for name in ("disputed", "adjudications"))
    pages = {
        "item": reverse("annotation:queue_item", args=[queue.pk, item.pk]),
        "review": reverse("annotation:review_item", args=[queue.pk, item.pk]),
        "items": reverse("annotation:items", args=[queue.pk]),
    }
    marks = {"item": "the better reason", "review": "the better reason", "items": "decided"}

    def is_shown() -> dict[str, bool]:
        return {name: marks[name] in client.get(page).content.decode() for name, page in pages.items()}

    held = next_assignment(queue=queue, annotator=annotator_of(reviewer))
    assert held is not None
    assert api.get(disputed).json()["results"] == []
    assert "disputed</span>" not in client.get(pages["items"]).content.decode()
    adjudicate(item=item, by=factories.member(of=reviewer.workspace).user, reason="the better reason", strength=1)
    assert api.get(decisions).json()["results"] == []
    assert is_shown() == {"item": False, "review": False, "items": False}
    record(assignment=held, answer=Choice(1))
    assert [row["reason"] for row in api.get(decisions).json()["results"]] == ["the better reason"]
    assert is_shown() == {"item": True, "review": True, "items": True}


@pytest.mark.parametrize("steps", [2, 12])
@pytest.mark.parametrize("make", [builders.queue, builders.queue_of_trajectories])
def test_an_agents_own_error_is_not_shown_at_the_desk(make: Any, steps: int) -> None:
    """It may name the model. Neither opened steps show it, nor the lines of those that aren't."""
    member = factories.member(Role.ANNOTATOR)
    queue = make(of=member.workspace, steps=steps)
    Step.objects.update(info={"error": "opus overloaded"}, result="opus overloaded", is_error=True)
    client = Client()
    client.force_login(member.user)
    page = client.get(reverse("annotation:desk", args=[queue.pk])).content.decode()
    assert "This turn failed." in page
    assert "opus" not in page
    mine = Assignment.objects.get()
    rows = client.get(reverse("annotation:rows", args=[mine.pk, 0]), headers={"HX-Request": "true"})
    assert rows.status_code == 200
    assert "opus" not in rows.content.decode()


def test_why_a_continuation_failed_is_a_researchers_to_read() -> None:
    """A server's own text may name its model."""
    for role, is_told in ((Role.ANNOTATOR, False), (Role.REVIEWER, False), (Role.RESEARCHER, True)):
        member = factories.member(role)
        policy = factories.served_policy(of=member.workspace)
        queue = builders.queue_of_trajectories(
            of=member.workspace, asks=StepsAsks(alternatives=Alternatives(policy.pk))
        )
        held = next_assignment(queue=queue, annotator=annotator_of(member))
        assert held is not None
        failed = Continuation.objects.create(
            workspace=member.workspace,
            trajectory=held.item.a,
            index=0,
            policy=policy,
            count=4,
            state="failed",
            failure={"message": "The policy gave no answer here. opus overloaded"},
        )
        client = Client()
        client.force_login(member.user)
        error = client.get(reverse("annotation:continuation", args=[held.pk, failed.pk])).json()["error"]
        assert ("no answer here" in error, "opus" in error) == (True, is_told)
