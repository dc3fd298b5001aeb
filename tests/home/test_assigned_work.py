from datetime import timedelta

import pytest
from django.utils.timezone import now

from apps.accounts.models import Role
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.models import Desk, Inspection, Queue, Rating
from apps.common.ids import first_id_at
from apps.home import assigned_work
from apps.home.assigned_work import Pace, pace_of, waiting_for
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def member():
    return factories.member(Role.ANNOTATOR)


def desk(queue, member, judged, seconds=0.0):
    who = factories.annotator(of=queue.workspace, user=member.user)
    return Desk.objects.create(queue=queue, annotator=who, judged=judged, seconds=seconds)


def test_a_queue_that_nobody_began_is_all_left(member):
    factories.queue(of=member.workspace, item_count=10, overlap=2)
    [row] = waiting_for(member)
    assert (row.all_for_me, row.left_for_me, row.judged_by_me, row.time_left) == (10, 10, 0, "")


def test_what_is_left_for_me_is_bounded_by_my_items_and_by_what_others_leave(member):
    queue = factories.queue(of=member.workspace, item_count=10, overlap=2)
    desk(queue, member, judged=4, seconds=120.0)
    desk(queue, factories.member(of=member.workspace), judged=10)
    [row] = waiting_for(member)
    assert row.judged_by_all == 14
    assert row.left_for_me == 6  # the 6 items that I haven't judged
    assert row.time_left == "3 min"  # 6 at 30 s each


def test_a_queue_that_is_done_comes_last(member):
    todo = factories.queue(of=member.workspace, item_count=3)
    done = factories.queue(of=member.workspace, item_count=1)
    desk(done, member, judged=1)
    assert [row.queue for row in waiting_for(member)] == [todo, done]


@pytest.mark.parametrize("state", [Queue.State.FILLING, Queue.State.FAILED, Queue.State.PAUSED, Queue.State.CLOSED])
def test_only_open_queues_wait(member, state):
    factories.queue(of=member.workspace, item_count=3, state=state)
    assert waiting_for(member) == []


def test_the_queues_of_another_workspace_do_not_wait_here(member):
    factories.queue(item_count=3)
    assert waiting_for(member) == []


def test_what_somebody_has_begun_comes_before_what_they_have_not(member):
    begun = factories.queue(of=member.workspace, item_count=3)
    factories.queue(of=member.workspace, item_count=3)
    desk(begun, member, judged=1)
    assert waiting_for(member)[0].queue == begun


def test_a_persons_pace_is_over_all_their_queues_and_nobody_elses(member):
    first = factories.queue(of=member.workspace, item_count=3)
    who = desk(first, member, judged=2, seconds=20.0).annotator
    second = factories.queue(of=member.workspace, item_count=3)
    Desk.objects.create(queue=second, annotator=who, judged=2, seconds=60.0)
    desk(second, factories.member(of=member.workspace), judged=9, seconds=900.0)
    factories.preference(on=factories.item(of=first), by=who)
    factories.preference(on=factories.item(of=first), by=who, id=first_id_at(now() - timedelta(hours=30)))
    assert pace_of(member) == Pace(judged=4, lately=1, seconds_each=20.0)  # (20 + 60) s / 4


def test_judgments_of_every_kind_count_as_made_lately(member):
    who = factories.annotator(of=member.workspace, user=member.user)
    for kind in (Queue.Kind.STEPS, Queue.Kind.RATING):
        queue = builders.queue_of_trajectories(kind, of=member.workspace)
        columns = {
            "workspace": member.workspace,
            "queue": queue,
            "item": queue.items.get(),
            "annotator": who,
            "seconds": 1,
        }
        assignment = next_assignment(queue=queue, annotator=who)
        if kind == Queue.Kind.STEPS:
            Inspection.objects.create(**columns, assignment=assignment, ending=Inspection.Ending.SOLVED)
        else:
            Rating.objects.create(**columns, assignment=assignment, thumb=1)
    assert pace_of(member).lately == 2


def test_nothing_judged_has_no_pace(member):
    assert pace_of(member) == Pace(judged=0, lately=0, seconds_each=None)


def test_the_cost_does_not_grow_with_the_queues(member, django_assert_num_queries):
    factories.queue(of=member.workspace, item_count=3)
    with django_assert_num_queries(4):
        waiting_for(member)
    for _ in range(5):
        desk(factories.queue(of=member.workspace, item_count=3), factories.member(of=member.workspace), judged=1)
    with django_assert_num_queries(4):
        waiting_for(member)


def test_work_in_an_old_queue_is_found_beneath_many_that_are_done(member, monkeypatch):
    monkeypatch.setattr(assigned_work, "SHOWN", 2)
    todo = factories.queue(of=member.workspace, item_count=3)
    who = factories.annotator(of=member.workspace, user=member.user)
    for _ in range(2):
        Desk.objects.create(queue=factories.queue(of=member.workspace, item_count=1), annotator=who, judged=1)
    rows = waiting_for(member)
    assert (rows[0].queue, len(rows)) == (todo, 2)
