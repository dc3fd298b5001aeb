"""Items reserved for named people: claims respect it, and each item still gets the queue's number of judgments."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts import membership_changes
from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Membership, Role
from apps.annotation.bulk import assignment
from apps.annotation.bulk.assignment import (
    NoSuchItems,
    NotTheirs,
    PartOfExperiment,
    TooFewPeople,
    TooManyPlaces,
    assign_items,
    free_unreachable,
    people_by_item,
)
from apps.annotation.bulk.undo import LaterAct, undo_bulk_act
from apps.annotation.desk.assignments import annotator_of, expire_leases, next_assignment
from apps.annotation.models import Assignment, Item, Queue
from apps.annotation.queries import desk_progress
from apps.annotation.queues.known_answers import make_known, make_work
from apps.annotation.queues.overlap import TooFewNamed, raise_overlap
from tests import factories
from tests.accounts.clients import as_
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def ada(researcher: Membership) -> Membership:
    return factories.member(Role.ANNOTATOR, of=researcher.workspace, name="Ada")


@pytest.fixture
def ben(researcher: Membership) -> Membership:
    return factories.member(Role.ANNOTATOR, of=researcher.workspace, name="Ben")


def ids(queue: Queue) -> list[int]:
    return list(queue.items.order_by("position").values_list("pk", flat=True))


def judged_by(queue: Queue, member: Membership) -> list[int]:
    """All items given to this person until none is left."""
    items = []
    while next_assignment(queue=queue, annotator=annotator_of(member)):
        items.append(builders.judge(queue, annotator_of(member), 1).item_id)
    return items


def test_an_assigned_item_comes_to_its_person_first_and_to_nobody_else(
    researcher: Membership, ada: Membership, ben: Membership
) -> None:
    queue = builders.queue(of=researcher.workspace, items=3)
    first, second, third = ids(queue)
    assign_items(queue=queue, items=[third], people=[ada.user], by=researcher)
    assert judged_by(queue, ben) == [first, second]
    assert judged_by(queue, ada) == [third]


def test_an_assigned_item_comes_first_to_somebody_who_begins_later(researcher: Membership, ada: Membership) -> None:
    queue = builders.queue(of=researcher.workspace, items=3)
    first, second, third = ids(queue)
    assign_items(queue=queue, items=[third], people=[ada.user], by=researcher)
    Item.objects.filter(pk=third).update(returned_at=now() - timedelta(days=1))
    assert judged_by(queue, ada) == [third, first, second]


def test_each_item_gets_exactly_as_many_judgments_as_its_queue_asks_for(
    researcher: Membership, ada: Membership, ben: Membership
) -> None:
    cleo = factories.member(Role.ANNOTATOR, of=researcher.workspace)
    queue = builders.queue(of=researcher.workspace, items=2, overlap=2)
    first, second = ids(queue)
    assign_items(queue=queue, items=[second], people=[ada.user, ben.user], by=researcher)
    assert judged_by(queue, cleo) == [first]
    assert judged_by(queue, ada) == [second, first]
    assert judged_by(queue, ben) == [second]
    assert list(Item.objects.filter(queue=queue).values_list("taken", "judged").distinct()) == [(2, 2)]


def test_somebody_who_passed_an_item_gets_it_once_it_is_theirs(
    researcher: Membership, ada: Membership, ben: Membership
) -> None:
    queue = builders.queue(of=researcher.workspace, items=2)
    first, second = ids(queue)
    assign_items(queue=queue, items=[first], people=[ada.user], by=researcher)
    assert judged_by(queue, ben) == [second]
    assign_items(queue=queue, items=[first], people=[ben.user], by=researcher)
    assert judged_by(queue, ada) == []
    assert judged_by(queue, ben) == [first]


def test_work_in_hand_is_not_taken_away_but_does_not_come_back(
    researcher: Membership, ada: Membership, ben: Membership
) -> None:
    queue = builders.queue(of=researcher.workspace, items=1)
    held = next_assignment(queue=queue, annotator=annotator_of(ben))
    assert held is not None
    assign_items(queue=queue, items=ids(queue), people=[ada.user], by=researcher)
    assert next_assignment(queue=queue, annotator=annotator_of(ben)) == held
    Assignment.objects.filter(pk=held.pk).update(leased_until=held.created_at, opened_at=held.created_at)
    expire_leases()
    assert next_assignment(queue=queue, annotator=annotator_of(ben)) is None
    assert judged_by(queue, ada) == ids(queue)


def test_rules_and_models_get_no_items_of_people(researcher: Membership, ada: Membership) -> None:
    queue = builders.queue(of=researcher.workspace)
    assign_items(queue=queue, items=ids(queue), people=[ada.user], by=researcher)
    assert next_assignment(queue=queue, annotator=builders.rule(of=researcher.workspace)) is None


def test_what_is_for_others_is_not_left_for_me(researcher: Membership, ada: Membership, ben: Membership) -> None:
    queue = builders.queue(of=researcher.workspace, items=3)
    assign_items(queue=queue, items=ids(queue)[1:], people=[ada.user], by=researcher)
    queue.refresh_from_db()
    assert desk_progress(queue, annotator_of(ben)).left == 1
    assert desk_progress(queue, annotator_of(ada)).left == 3
    assert "1 left for you" in as_(ben).get(reverse("home")).content.decode()
    judged_by(queue, ben)
    assert desk_progress(queue, annotator_of(ben)).left == 0


def test_a_gold_item_is_for_everybody_whoever_it_was_assigned_to(
    researcher: Membership, ada: Membership, ben: Membership
) -> None:
    queue = builders.queue(of=researcher.workspace, items=2)
    first, second = ids(queue)
    assign_items(queue=queue, items=[first], people=[ada.user], by=researcher)
    make_known(item=Item.objects.get(pk=first), purpose=Item.Purpose.GOLD, answer=1, by=None)
    queue.refresh_from_db()
    assert desk_progress(queue, annotator_of(ben)).left == 2
    raise_overlap(queue=queue, overlap=2)  # that Ada alone was to judge it doesn't matter anymore
    make_work(item=Item.objects.get(pk=first), by=None)
    assert judged_by(queue, ben) == [first, second]


def test_undo_gives_items_back_to_whom_they_were_for(researcher: Membership, ada: Membership, ben: Membership) -> None:
    queue = builders.queue(of=researcher.workspace, items=2)
    first, second = ids(queue)
    earlier = assign_items(queue=queue, items=[first], people=[ada.user], by=researcher)
    later = assign_items(queue=queue, items=[first, second], people=[ben.user], by=researcher)
    with pytest.raises(LaterAct):
        undo_bulk_act(act=earlier, by=researcher.user)
    undo_bulk_act(act=later, by=researcher.user)
    assert judged_by(queue, ben) == [second]
    undo_bulk_act(act=earlier, by=researcher.user)
    assert judged_by(queue, ben) == [first]


def test_undo_gives_nothing_to_somebody_who_left(researcher: Membership, ada: Membership, ben: Membership) -> None:
    queue = builders.queue(of=researcher.workspace)
    assign_items(queue=queue, items=ids(queue), people=[ada.user], by=researcher)
    later = assign_items(queue=queue, items=ids(queue), people=[ben.user], by=researcher)
    membership_changes.remove(membership=ada, by=ada.user)
    undo_bulk_act(act=later, by=researcher.user)
    assert people_by_item(ids(queue)) == {}
    assert judged_by(queue, ben) == ids(queue)


def test_items_of_somebody_who_left_are_for_others(researcher: Membership, ada: Membership, ben: Membership) -> None:
    queue = builders.queue(of=researcher.workspace, items=3)
    first, second, third = ids(queue)
    assign_items(queue=queue, items=[first], people=[ada.user], by=researcher)
    assign_items(queue=queue, items=[second], people=[ada.user, ben.user], by=researcher)
    cleo = factories.member(Role.ANNOTATOR, of=researcher.workspace)
    assert judged_by(queue, cleo) == [third]
    membership_changes.remove(membership=ada, by=ada.user)
    free_unreachable()
    assert people_by_item(ids(queue)) == {second: [ben.user_id]}
    assert judged_by(queue, cleo) == [first]
    assert judged_by(queue, ben) == [second]


def test_an_item_that_too_few_are_left_to_judge_is_for_everybody(
    researcher: Membership, ada: Membership, ben: Membership
) -> None:
    queue = builders.queue(of=researcher.workspace, overlap=2)
    assign_items(queue=queue, items=ids(queue), people=[ada.user, ben.user], by=researcher)
    queue.labelers.add(ben.user, researcher.user)
    Queue.objects.update(is_restricted=True)  # without Ada
    free_unreachable()
    queue.refresh_from_db()
    assert judged_by(queue, ben) == judged_by(queue, researcher) == ids(queue)


def test_items_times_people_are_bounded(
    researcher: Membership, ada: Membership, ben: Membership, monkeypatch: Any
) -> None:
    monkeypatch.setattr(assignment, "MAX_SLOTS", 3)
    queue = builders.queue(of=researcher.workspace, items=2)
    with pytest.raises(TooManyPlaces, match="2 items for 2 people each are more than 3"):
        assign_items(queue=queue, items=ids(queue), people=[ada.user, ben.user], by=researcher)
    assert assign_items(queue=queue, items=ids(queue)[:1], people=[ada.user, ben.user], by=researcher).count == 1


def test_what_cannot_be_assigned_is_refused(researcher: Membership, ada: Membership) -> None:
    queue = builders.queue(of=researcher.workspace, items=2, overlap=2)
    other = builders.queue(of=researcher.workspace)
    outsider = factories.member(Role.ANNOTATOR)
    with pytest.raises(TooFewPeople, match="2 people judge each item"):
        assign_items(queue=queue, items=ids(queue), people=[ada.user], by=researcher)
    with pytest.raises(NotTheirs):
        assign_items(queue=queue, items=ids(queue), people=[ada.user, outsider.user], by=researcher)
    with pytest.raises(NoSuchItems):
        assign_items(queue=queue, items=ids(other), people=[], by=researcher)
    Queue.objects.filter(pk=other.pk).update(is_restricted=True)
    other.refresh_from_db()
    with pytest.raises(NotTheirs):
        assign_items(queue=other, items=ids(other), people=[ada.user], by=researcher)


def test_more_people_an_item_than_are_named_are_refused(researcher: Membership, ada: Membership) -> None:
    queue = builders.queue(of=researcher.workspace)
    assign_items(queue=queue, items=ids(queue), people=[ada.user], by=researcher)
    with pytest.raises(TooFewNamed):
        raise_overlap(queue=queue, overlap=2)


def test_the_overlap_that_counts_is_the_queues_own_by_then(researcher: Membership, ada: Membership) -> None:
    queue = builders.queue(of=researcher.workspace)
    before = assign_items(queue=queue, items=ids(queue), people=[ada.user], by=researcher)
    assign_items(queue=queue, items=ids(queue), people=[], by=researcher)
    Queue.objects.update(overlap=2)  # by somebody else, after these pages were loaded
    with pytest.raises(TooFewPeople):
        assign_items(queue=queue, items=ids(queue), people=[ada.user], by=researcher)
    before.before = {str(item): [ada.user.pk] for item in ids(queue)}
    assignment.restore_people(before)
    assert people_by_item(ids(queue)) == {}


def test_of_an_experiments_pairs_all_are_assigned_or_none(researcher: Membership, ada: Membership) -> None:
    queue = builders.queue(of=researcher.workspace, items=3, selection={"experiment": "1"})
    with pytest.raises(PartOfExperiment, match="Assign all of them"):
        assign_items(queue=queue, items=ids(queue)[1:], people=[ada.user], by=researcher)
    assign_items(queue=queue, items=ids(queue), people=[ada.user], by=researcher)
    assert judged_by(queue, ada) == ids(queue)


def test_the_page_of_items_assigns_what_is_picked_and_names_the_people(researcher: Membership, ada: Membership) -> None:
    ada.user.name = "Ada Byron"
    ada.user.save()
    queue = builders.queue(of=researcher.workspace, items=2)
    sent = {"item": ids(queue), "person": [ada.user_id]}
    page = as_(researcher).post(reverse("annotation:assign", args=[queue.pk]), sent, follow=True).content.decode()
    assert "Assigned 2 items to Ada Byron" in page
    assert page.count('title="Assigned to this person"') == 2
    reviewer = factories.member(Role.REVIEWER, of=researcher.workspace)
    assert "data-pick" not in as_(reviewer).get(reverse("annotation:items", args=[queue.pk])).content.decode()


def test_items_are_assigned_over_rest(researcher: Membership, ada: Membership, client: Client) -> None:
    queue = builders.queue(of=researcher.workspace, items=2)
    key = {"Authorization": f"Bearer {issue_token(membership=researcher, name='t').secret}"}

    def assign(**body: Any) -> Any:
        address = reverse("v1:queue_assign", args=[queue.pk])
        return client.post(address, body, content_type="application/json", headers=key)

    assert list(assign(items=ids(queue), people=["nobody@example.org"]).json()["fields"]) == ["people"]
    assert assign(items=[1], people=[]).status_code == 409
    made = assign(items=ids(queue), people=[ada.user.email, ada.user.email.upper()])
    assert (made.status_code, made.json()["count"]) == (201, 2)
    assert judged_by(queue, researcher) == []
