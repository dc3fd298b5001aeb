from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from random import Random
from threading import Barrier

import pytest
from django.db import connection, connections
from django.db.models import F
from django.utils.timezone import now

from apps.accounts.models import Membership, Role
from apps.annotation.desk.actions import keep, record, save_draft, skip, undo_last
from apps.annotation.desk.assignments import annotator_of, expire_leases, next_assignment, release_ahead
from apps.annotation.desk.claims import _SLOT, _UNTOUCHED, CLAIM
from apps.annotation.kinds.answers import Choice
from apps.annotation.models import Annotator, Assignment, Desk, Item, Preference, Queue
from apps.annotation.queues.queue_lifecycle import close_queue, pause_queue
from apps.annotation.refusals import QueueNotOpen
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db


def take(queue: Queue, annotator: Annotator) -> Assignment:
    assignment = next_assignment(queue=queue, annotator=annotator)
    assert assignment is not None
    return assignment


def lapse(assignment: Assignment) -> None:
    """Expire the lease of this assignment."""
    Assignment.objects.filter(pk=assignment.pk).update(leased_until=now() - timedelta(seconds=1))


def test_items_come_in_the_order_of_the_queue():
    queue = builders.queue(items=3)
    annotator = builders.rule(of=queue.workspace)
    positions = []
    for _ in range(3):
        assignment = take(queue, annotator)
        positions.append(assignment.item.position)
        record(assignment=assignment, answer=Choice(1))
    assert positions == [0, 1, 2]
    assert next_assignment(queue=queue, annotator=annotator) is None


def test_asking_again_gives_the_item_in_hand():
    queue = builders.queue(items=3)
    annotator = builders.rule(of=queue.workspace)
    assert take(queue, annotator) == take(queue, annotator)
    assert Item.objects.filter(taken=1).count() == 1


def test_one_item_may_be_loaded_ahead_and_no_more():
    queue = builders.queue(items=5)
    annotator = builders.rule(of=queue.workspace)
    shown = take(queue, annotator)
    ahead = next_assignment(queue=queue, annotator=annotator, besides=[shown.pk])
    assert ahead is not None
    assert ahead != shown
    assert next_assignment(queue=queue, annotator=annotator, besides=[shown.pk, ahead.pk]) is None
    assert Item.objects.filter(taken=1).count() == 2


def test_leaving_gives_back_what_was_loaded_ahead_and_keeps_what_was_shown():
    queue = builders.queue(items=3)
    annotator = builders.rule(of=queue.workspace)
    shown = keep(assignment=take(queue, annotator))
    next_assignment(queue=queue, annotator=annotator, besides=[shown.pk])
    assert release_ahead(queue=queue, annotator=annotator) == 1
    assert list(Item.objects.filter(taken=1)) == [shown.item]


def test_overlap_gives_an_item_to_exactly_so_many_people():
    queue = builders.queue(items=1, overlap=2)
    people = [builders.rule(of=queue.workspace) for _ in range(3)]
    assert [next_assignment(queue=queue, annotator=person) is not None for person in people] == [True, True, False]


def test_an_expired_place_goes_to_somebody_else():
    queue = builders.queue(items=1)
    first, second = (builders.rule(of=queue.workspace) for _ in range(2))
    held = take(queue, first)
    assert next_assignment(queue=queue, annotator=second) is None
    lapse(held)
    assert take(queue, second).item == held.item  # found without waiting for the periodic task
    held.refresh_from_db()
    assert held.state == Assignment.State.EXPIRED


def test_the_clock_expires_several_places_of_one_item():
    queue = builders.queue(items=1, overlap=3)
    held = [take(queue, builders.rule(of=queue.workspace)) for _ in range(3)]
    for assignment in held:
        lapse(assignment)
    assert expire_leases() == 3
    assert Item.objects.get().taken == 0


def test_a_place_that_came_back_behind_everybody_is_found_at_once():
    queue = builders.queue(items=4)
    first, second = (builders.rule(of=queue.workspace) for _ in range(2))
    held = take(queue, first)
    record(assignment=take(queue, second), answer=Choice(1))
    assert Desk.objects.get(annotator=second).position == 1
    lapse(held)
    expire_leases()
    assert take(queue, second).item.position == 0


def test_who_let_an_item_lapse_gets_it_back_with_draft_and_sides():
    queue = builders.queue(items=9)
    annotator = builders.rule(of=queue.workspace)
    held = keep(assignment=take(queue, annotator))
    save_draft(assignment=held, draft={"rationale": "half a thought"})
    lapse(held)
    expire_leases()
    again = take(queue, annotator)
    assert again == held
    assert again.draft == {"rationale": "half a thought"}
    assert again.a_is_left == held.a_is_left


def test_a_skipped_item_does_not_come_back_unless_the_queue_says_so():
    queue = builders.queue(items=2, overlap=2)
    person, machine = (factories.annotator(of=queue.workspace, kind=kind) for kind in ("person", "model"))
    for annotator in (person, machine):
        skipped = take(queue, annotator)
        skip(assignment=skipped, reason="no idea")
        record(assignment=take(queue, annotator), answer=Choice(0))
        assert next_assignment(queue=queue, annotator=annotator) is None
    queue.skipped_come_back = True
    assert take(queue, person).item == skipped.item
    assert next_assignment(queue=queue, annotator=machine) is None  # it would skip it again, forever


def test_a_paused_or_closed_queue_gives_nothing_out():
    queue = builders.queue()
    annotator = builders.rule(of=queue.workspace)
    pause_queue(queue=queue, by=None)
    with pytest.raises(QueueNotOpen):
        next_assignment(queue=queue, annotator=annotator)
    close_queue(queue=queue, by=None)
    with pytest.raises(QueueNotOpen):
        next_assignment(queue=queue, annotator=annotator)


@pytest.mark.parametrize("stop", [pause_queue, close_queue])
def test_what_was_shown_before_a_queue_stopped_may_be_finished(stop):
    queue = builders.queue(items=3)
    annotator = builders.rule(of=queue.workspace)
    record(assignment=take(queue, annotator), answer=Choice(1))
    shown = keep(assignment=take(queue, annotator))
    ahead = next_assignment(queue=queue, annotator=annotator, besides=[shown.pk])
    assert ahead is not None
    stop(queue=queue, by=None)
    assert take(queue, annotator) == shown
    with pytest.raises(QueueNotOpen):
        next_assignment(queue=queue, annotator=annotator, besides=[shown.pk])
    record(assignment=shown, answer=Choice(1))
    taken_back = undo_last(queue=queue, annotator=annotator)
    assert take(queue, annotator) == taken_back  # otherwise its judgment would be lost


def test_sides_are_drawn_by_chance():
    queue = builders.queue(items=40)
    annotator = builders.rule(of=queue.workspace)
    sides: Counter[bool] = Counter()
    for _ in range(40):
        assignment = take(queue, annotator)
        sides[assignment.a_is_left] += 1
        record(assignment=assignment, answer=Choice(1))
    assert min(sides[True], sides[False]) >= 3  # fewer: probability 1 in 600 million


def test_a_person_is_one_annotator_even_after_leaving_and_coming_back():
    member = factories.member()
    before = annotator_of(member)
    user, workspace = member.user, member.workspace
    member.delete()
    again = Membership.objects.create(user=user, workspace=workspace, role=Role.ANNOTATOR)
    assert annotator_of(again) == before


def test_the_search_reads_free_places_in_order_and_sorts_no_queue():
    queue = builders.queue(items=60, steps=0)
    Item.objects.filter(queue=queue, position__lt=50).update(taken=F("overlap"))
    annotator = builders.rule(of=queue.workspace)
    desk = Desk.objects.create(queue=queue, annotator=annotator)
    values = {
        "queue": queue.pk,
        "desk": desk.pk,
        "annotator": annotator.pk,
        "position": 1,
        "count": 8,
        "since": now(),
        "now": now(),
        "dealt_with": ["open", "judged", "skipped"],
    }
    with connection.cursor() as cursor:
        # Without fresh statistics, the plan depends on which test's rows autovacuum last analyzed.
        cursor.execute("ANALYZE annotation_item")
        cursor.execute("SET LOCAL enable_seqscan = off")  # a queue this small would be scanned sequentially
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute("EXPLAIN " + CLAIM.format(untouched=_UNTOUCHED, locked="SKIP LOCKED", slot=_SLOT), values)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    search = plan[plan.index("CTE free") : plan.index("CTE moved")]
    assert "item_with_a_free_place" in search
    assert "item_with_a_returned_place" in search
    assert "Sort" not in search


@pytest.mark.django_db(transaction=True)
def test_twenty_people_at_sixty_items_of_overlap_three_lose_nothing_and_judge_nothing_twice():
    queue = builders.queue(items=60, overlap=3, steps=0)
    people = [builders.rule(of=queue.workspace) for _ in range(20)]
    start = Barrier(len(people))

    def work(person: Annotator) -> int:
        chance, done = Random(person.name), 0
        start.wait()
        while assignment := next_assignment(queue=queue, annotator=person):
            fate = chance.random()
            connections.close_all()  # as between two requests: there are fewer pooled connections than annotators
            if fate < 0.05:
                skip(assignment=assignment)
            elif fate < 0.1:
                lapse(assignment)  # leaves; comes back, or the lease expires
            else:
                record(assignment=assignment, answer=Choice(chance.randint(-3, 3)))
                done += 1
        connections.close_all()
        return done

    with ThreadPoolExecutor(len(people)) as threads:
        done = sum(threads.map(work, people))

    # Annotators who found nothing while others held slots come back for the slots that were freed.
    Desk.objects.update(swept_at=None)
    for person in people:
        while assignment := next_assignment(queue=queue, annotator=person):
            record(assignment=assignment, answer=Choice(0))
            done += 1
    judges: dict[int, list[object]] = defaultdict(list)
    for preference in Preference.objects.all():
        judges[preference.item_id].append(preference.annotator_id)
    assert done == 60 * 3
    assert len(judges) == 60
    assert all(len(who) == len(set(who)) == 3 for who in judges.values())
    assert not Item.objects.exclude(judged=3, taken=F("judged")).exists()
    assert sum(Desk.objects.values_list("judged", flat=True)) == 180


@pytest.mark.django_db(transaction=True)
def test_two_tabs_asking_at_once_get_the_same_item():
    queue = builders.queue(items=10)
    annotator = builders.rule(of=queue.workspace)
    start = Barrier(8)

    def ask(_: int) -> Assignment | None:
        start.wait()
        try:
            return next_assignment(queue=queue, annotator=annotator)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        items = set(threads.map(ask, range(8)))
    assert len(items) == 1
    assert Item.objects.filter(taken=1).count() == 1
