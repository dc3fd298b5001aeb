"""Review: decisions on disputed items, and feedback to those who judged them."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role, Workspace
from apps.annotation.desk.actions import record, undo_last
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.kinds.answers import Choice, Scores
from apps.annotation.models import Adjudication, Item, Preference, Queue, Remark
from apps.annotation.queues.queue_lifecycle import create_queue_of_trajectories
from apps.annotation.review.adjudication import (
    NoReason,
    NotAmongThem,
    NotJudged,
    NotYours,
    adjudicate,
    awaiting_review,
    remark,
)
from apps.annotation.review.feedback import feedback_for
from apps.trajectories.models import Trajectory
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


@pytest.fixture
def reviewer(workspace: Workspace) -> Membership:
    return factories.member(Role.REVIEWER, of=workspace)


@pytest.fixture
def annotator(workspace: Workspace) -> Membership:
    return factories.member(Role.ANNOTATOR, of=workspace)


@pytest.fixture
def disputed(workspace: Workspace, annotator: Membership) -> Queue:
    """A queue of two pairs: the annotator prefers a in both, a rule prefers b in the first and a in the second."""
    queue = builders.queue(of=workspace, overlap=2, items=2)
    rule = builders.rule(of=workspace)
    for who, strengths in ((annotator_of(annotator), (2, 2)), (rule, (-1, 1))):
        for strength in strengths:
            record(assignment=next_assignment(queue=queue, annotator=who), answer=Choice(strength))
    return queue


def test_a_decision_ends_a_dispute_and_a_new_one_replaces_it(disputed, reviewer):
    (item,) = awaiting_review(disputed)
    first = adjudicate(item=item, by=reviewer.user, strength=-2, reason="It paid twice.")
    assert not awaiting_review(disputed).exists()
    assert adjudicate(item=item, by=reviewer.user, strength=-2, reason="It paid twice.") == first
    second = adjudicate(item=item, by=reviewer.user, strength=1, reason="The second payment was refunded.")
    assert list(Adjudication.objects.valid()) == [second]
    assert Adjudication.objects.count() == 2


def test_a_decision_needs_a_reason_and_a_judgment(disputed, reviewer, workspace):
    with pytest.raises(NoReason):
        adjudicate(item=awaiting_review(disputed).get(), by=reviewer.user, strength=1, reason="  ")
    unjudged = builders.queue(of=workspace, steps=0).items.get()
    with pytest.raises(NotJudged):
        adjudicate(item=unjudged, by=reviewer.user, strength=1, reason="Because")


def test_of_a_single_run_one_of_its_judgments_stands_and_its_steps_are_there_to_read(
    workspace, reviewer, client: Client
):
    run = builders.attempt(factories.task(of=workspace), steps=10)
    queue = create_queue_of_trajectories(
        kind=Queue.Kind.RATING, trajectories=[run], workspace=workspace, created_by=None, name="Rate", overlap=2
    )
    ratings = [
        record(
            assignment=next_assignment(queue=queue, annotator=builders.rule(of=workspace)), answer=Scores(thumb=thumb)
        )
        for thumb in (1, -1)
    ]
    (item,) = awaiting_review(queue)
    with pytest.raises(NotAmongThem):
        adjudicate(item=item, by=reviewer.user, upheld=factories.workspace().pk, reason="Because")
    client.force_login(reviewer.user)
    address = reverse("annotation:review_item", args=[queue.pk, item.pk])
    page = client.get(address).content.decode()
    assert 'id="row-9"' in page
    assert "Shelf 8 is empty." not in page  # late steps are loaded when they come near the viewport
    assert "Shelf 8 is empty." in client.get(f"{address}rows/8/").content.decode()
    made = adjudicate(item=item, by=reviewer.user, upheld=ratings[1].pk, reason="It deleted the file.")
    assert (made.upheld, made.strength) == (ratings[1].pk, None)


def test_a_decision_falls_when_the_judgment_that_it_upheld_is_taken_back(workspace, reviewer):
    queue = builders.queue_of_trajectories(Queue.Kind.RATING, of=workspace, overlap=3)
    up, down, again = (builders.rule(of=workspace) for _ in range(3))
    ratings = [
        record(assignment=next_assignment(queue=queue, annotator=who), answer=Scores(thumb=thumb))
        for who, thumb in ((up, 1), (down, -1), (again, -1))
    ]
    (item,) = awaiting_review(queue)
    adjudicate(item=item, by=reviewer.user, upheld=ratings[1].pk, reason="It deleted the file.")
    undo_last(queue=queue, annotator=again)
    assert not awaiting_review(queue).exists()  # that one was not upheld
    undo_last(queue=queue, annotator=down)
    assert not Adjudication.objects.valid().exists()
    record(assignment=next_assignment(queue=queue, annotator=again), answer=Scores(thumb=-1))
    assert list(awaiting_review(queue)) == [item]


def test_the_annotator_reads_decisions_by_the_sides_they_saw_and_answers(disputed, reviewer, annotator, client):
    item = awaiting_review(disputed).get()
    adjudicate(item=item, by=reviewer.user, strength=-2, reason="It paid twice.")
    who = annotator_of(annotator)
    (feedback,) = feedback_for(disputed, who)
    left = feedback.judgment.a_was_left
    assert (feedback.judgment_text, feedback.decided) == (
        f"{'left' if left else 'right'} clearly better",
        f"{'right' if left else 'left'} clearly better",
    )
    assert feedback.agrees is False
    client.force_login(annotator.user)
    page = client.get(reverse("annotation:mine", args=[disputed.pk])).content.decode()
    assert "It paid twice." in page
    assert "decided differently" in page
    assert str(reviewer.user) not in page
    client.post(reverse("annotation:remark", args=[disputed.pk, item.pk, who.pk]), {"text": "It was refunded."})
    assert Remark.objects.get().by == annotator.user
    client.force_login(reviewer.user)
    assert (
        "It was refunded." in client.get(reverse("annotation:queue_item", args=[disputed.pk, item.pk])).content.decode()
    )


@pytest.mark.parametrize(("text", "words"), [(" ", "Write something first."), ("x" * 5001, "5000 characters fit")])
def test_a_remark_that_cannot_be_sent_says_why(disputed, reviewer, annotator, client, text, words):
    item = awaiting_review(disputed).get()
    client.force_login(reviewer.user)
    address = reverse("annotation:remark", args=[disputed.pk, item.pk, annotator_of(annotator).pk])
    assert words in client.post(address, {"text": text}, follow=True).content.decode()


def test_nobody_speaks_about_what_they_have_no_part_in(disputed, annotator, workspace, client):
    item = disputed.items.first()
    with pytest.raises(NotYours):
        remark(item=item, annotator=builders.rule(of=workspace), by=annotator.user, text="Hello")
    other = factories.member(Role.ANNOTATOR, of=workspace)
    client.force_login(other.user)
    address = reverse("annotation:remark", args=[disputed.pk, item.pk, annotator_of(annotator).pk])
    assert client.post(address, {"text": "Hello"}).status_code == 404


def test_an_annotator_learns_of_no_item_that_they_were_not_given(disputed, workspace, client):
    """Ids are sequential: these responses would reveal the number of items of a queue, including gold items."""
    other = factories.member(Role.ANNOTATOR, of=workspace)
    client.force_login(other.user)
    last = disputed.items.last().pk
    addresses = [
        reverse("annotation:remark", args=[disputed.pk, item, annotator_of(other).pk]) for item in (last, last + 1)
    ]
    assert [client.post(address, {"text": "Hello"}).status_code for address in addresses] == [404, 404]


@pytest.mark.django_db(transaction=True)
def test_a_decision_does_not_wait_for_a_change_of_the_queues_settings():
    """The settings lock the queue before its items: the opposite order would deadlock."""
    queue = builders.queue(steps=0)
    reviewer = factories.member(Role.REVIEWER, of=queue.workspace)
    record(assignment=next_assignment(queue=queue, annotator=builders.rule(of=queue.workspace)), answer=Choice(1))

    def decide() -> None:
        try:
            adjudicate(item=queue.items.get(), by=reviewer.user, strength=-1, reason="It paid twice.")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        Queue.objects.select_for_update(no_key=True).get()
        threads.submit(decide).result(timeout=10)
    assert Adjudication.objects.valid().exists()


def side_of_a(item: Item) -> str:
    """The side on which reviewers see run a."""
    return "left" if item.pk % 2 else "right"


def test_a_blind_review_hides_what_others_said_until_it_is_decided(disputed, reviewer, client: Client):
    client.force_login(reviewer.user)
    review = client.get(reverse("annotation:review", args=[disputed.pk]))
    item = Item.objects.get(disputed=True)
    assert review.url == reverse("annotation:review_item", args=[disputed.pk, item.pk])
    Trajectory.objects.update(policy=factories.policy(of=disputed.workspace, name="the champion"))
    said = [f"{side_of_a(item)} clearly better", "the reason of a rule"]
    Preference.objects.update(rationale=said[1])
    page = client.get(review.url).content.decode()
    assert not [words for words in (*said, "the champion") if words in page]
    assert "judged this. What they said appears once" in page
    assert "Left" in page
    wrong = client.post(review.url, {"answer": "2"})
    assert wrong.status_code == 422
    assert "Say why" in wrong.content.decode()
    done = client.post(review.url, {"answer": "2", "reason": "It paid."})
    assert done.status_code == 302
    made = Adjudication.objects.get()
    assert made.strength == (2 if item.pk % 2 else -2)  # the left side is run a for odd items
    assert made.was_blind
    after = client.get(done.url)
    assert "Nothing to decide" in after.content.decode()
    page = client.get(review.url).content.decode()
    assert [words for words in (*said, "the champion") if words in page] == said


def test_whoever_decides_again_has_seen_what_others_said(disputed, reviewer, client: Client):
    client.force_login(reviewer.user)
    review = client.get(reverse("annotation:review", args=[disputed.pk])).url
    for answer in ("2", "-1"):
        client.post(review, {"answer": answer, "reason": "It paid."})
    assert [made.was_blind for made in Adjudication.objects.order_by("pk")] == [True, False]


def test_a_decision_made_meanwhile_is_shown_before_it_is_replaced(disputed, reviewer, client: Client):
    client.force_login(reviewer.user)
    address = client.get(reverse("annotation:review", args=[disputed.pk])).url
    assert 'name="replaces" value=""' in client.get(address).content.decode()
    item = Item.objects.get(disputed=True)
    first = adjudicate(item=item, by=factories.member(of=disputed.workspace).user, strength=1, reason="It's safer.")
    own = {"answer": "2", "reason": "It paid."}
    refused = client.post(address, {**own, "replaces": ""})
    assert refused.status_code == 422
    page = refused.content.decode()
    assert "This item was decided meanwhile" in page
    assert "It&#x27;s safer." in page
    assert "It paid.</textarea>" in page
    assert f'name="replaces" value="{first.pk}"' in page
    assert client.post(address, {**own, "replaces": str(first.pk)}).status_code == 302
    last = Adjudication.objects.valid().get()
    assert (last.by, last.reason, last.was_blind) == (reviewer.user, "It paid.", False)


def test_the_list_of_disputes_leads_to_review_until_all_are_decided(disputed, reviewer, client):
    client.force_login(reviewer.user)
    review = reverse("annotation:review", args=[disputed.pk])
    disputes = f"{reverse('annotation:items', args=[disputed.pk])}?show=disputed"
    assert review in client.get(disputes).content.decode()
    adjudicate(item=awaiting_review(disputed).get(), by=reviewer.user, strength=1, reason="It is shorter.")
    page = client.get(disputes).content.decode()
    assert review not in page
    assert "decided</span>" in page


def test_a_place_that_no_item_has_begins_the_list_again(disputed, reviewer, client):
    client.force_login(reviewer.user)
    (item,) = awaiting_review(disputed)
    first = reverse("annotation:review_item", args=[disputed.pk, item.pk])
    for after in ("9" * 5000, "-1", "٣"):
        assert client.get(reverse("annotation:review", args=[disputed.pk]), {"after": after})["Location"] == first


def test_an_open_review_shows_who_said_what(disputed, reviewer, client):
    Queue.objects.update(blind_review=False)
    client.force_login(reviewer.user)
    item = Item.objects.get(disputed=True)
    page = client.get(reverse("annotation:review_item", args=[disputed.pk, item.pk])).content.decode()
    assert f"{side_of_a(item)} clearly better" in page
    assert f"{'left' if side_of_a(item) == 'right' else 'right'} slightly better" in page
    assert "Why? <kbd>r</kbd></label>" in page


def test_the_runs_of_a_review_come_in_pieces_that_name_no_run(disputed, reviewer, client):
    client.force_login(reviewer.user)
    item = Item.objects.get(disputed=True)
    rows = client.get(reverse("annotation:review_rows", args=[disputed.pk, item.pk, 0]), headers={"HX-Request": "true"})
    part = client.get(
        reverse("annotation:review_part", args=[disputed.pk, item.pk, "left", 0]) + "?at=call.0.0"
    )  # opened in a new tab
    for response in (rows, part):
        assert response.status_code == 200
        assert str(item.a_id) not in response.content.decode()
    assert f'href="{reverse("annotation:review_item", args=[disputed.pk, item.pk])}"' in part.content.decode()


def test_who_labels_and_outsiders_do_not_review(disputed, annotator, client):
    item = Item.objects.get(disputed=True)
    addresses = [
        reverse("annotation:review", args=[disputed.pk]),
        reverse("annotation:review_item", args=[disputed.pk, item.pk]),
        reverse("annotation:review_rows", args=[disputed.pk, item.pk, 0]),
        reverse("annotation:review_part", args=[disputed.pk, item.pk, "left", 0]),
    ]
    for member in (annotator, factories.member(Role.OWNER)):
        client.force_login(member.user)
        assert {client.get(address).status_code for address in addresses} == {404}


def test_the_page_says_who_judged_and_what_was_decided(disputed, reviewer):
    item = awaiting_review(disputed).get()
    client = Client()
    client.force_login(reviewer.user)
    url = reverse("annotation:review_item", args=[disputed.pk, item.pk])
    assert "1 person and 1 rule judged this" in client.get(url).content.decode()
    adjudicate(item=item, by=reviewer.user, strength=-2, reason="It paid twice.")
    page = client.get(url).content.decode()
    better = "right" if item.pk % 2 else "left"
    assert f"Decided: {better} clearly better." in page
    assert page.count(" checked>") == 1
    assert f'value="{-2 if better == "right" else 2}"' in page.split(" checked>")[0].rpartition("<input")[2]


def test_a_reviewers_home_leads_to_what_is_disputed(disputed, reviewer, annotator):
    client = Client()
    client.force_login(reviewer.user)
    assert "1 to decide in" in client.get("/").content.decode()
    adjudicate(item=awaiting_review(disputed).get(), by=reviewer.user, strength=1, reason="It is shorter.")
    assert "to decide in" not in client.get("/").content.decode()
    client.force_login(annotator.user)
    assert "to decide in" not in client.get("/").content.decode()
