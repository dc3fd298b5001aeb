"""Raising a queue's overlap while people work in it."""

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Barrier
from time import sleep

import pytest
from django.db import connection, connections, transaction
from django.db.models import F
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Role
from apps.annotation.desk.actions import record, skip, undo_last
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.kinds.answers import Choice
from apps.annotation.models import Annotator, Assignment, Desk, Item, Preference, Queue
from apps.annotation.models.items import FOR_ALL
from apps.annotation.queries import totals_of
from apps.annotation.queues import known_answers
from apps.annotation.queues.overlap import FewerPeople, FixedByPlan, raise_overlap
from apps.annotation.queues.queue_lifecycle import close_queue
from tests import factories
from tests.annotation import builders
from tests.annotation.desk.test_assignments import lapse, take

pytestmark = pytest.mark.django_db


@transaction.atomic
def ask(queue: Queue, people: int) -> Queue:
    """Raise the overlap as the settings page does."""
    held = Queue.objects.select_for_update(no_key=True).get(pk=queue.pk)
    raise_overlap(queue=held, overlap=people)
    held.overlap = people
    held.save(update_fields=["overlap"])
    return held


def judge_all(queue: Queue, who: Annotator, strength: int = 1) -> list[int]:
    """Positions of all items given to this person."""
    positions = []
    while assignment := next_assignment(queue=queue, annotator=who):
        positions.append(assignment.item.position)
        record(assignment=assignment, answer=Choice(strength))
    return positions


def test_a_judged_queue_asks_more_people_about_every_item_in_its_order():
    queue = builders.queue(items=4, steps=0)
    first, second, third = (builders.rule(of=queue.workspace) for _ in range(3))
    for _ in range(2):
        record(assignment=take(queue, first), answer=Choice(1))
    assert judge_all(queue, second) == [2, 3]  # this desk is past the first two, and has scanned the whole queue
    queue = ask(queue, 2)
    totals = totals_of(queue)
    assert (totals.judged, totals.slots) == (4, 8)
    assert judge_all(queue, second) == [0, 1]  # nobody judges twice
    assert judge_all(queue, third) == [2, 3]
    assert judge_all(queue, first) == []


def test_a_second_opinion_may_dispute_what_one_person_said():
    queue = builders.queue(steps=0)
    judge_all(queue, builders.rule(of=queue.workspace), 2)
    queue = ask(queue, 2)
    assert not Item.objects.get().disputed
    judge_all(queue, builders.rule(of=queue.workspace), -1)
    assert Item.objects.get().disputed


def test_a_known_item_keeps_its_places_and_an_ordinary_one_again_gets_the_new_number():
    queue = builders.queue(items=2, steps=0)
    known = queue.items.get(position=1)
    known_answers.make_known(item=known, purpose=Item.Purpose.GOLD, answer=1, by=None)
    ask(queue, 3)
    assert list(queue.items.order_by("position").values_list("overlap", flat=True)) == [3, FOR_ALL]
    known_answers.make_work(item=known, by=None)
    assert set(queue.items.values_list("overlap", flat=True)) == {3}


def test_who_skipped_an_item_is_not_given_its_new_place():
    queue = builders.queue(steps=0)
    who = builders.rule(of=queue.workspace)
    skip(assignment=take(queue, who))
    queue = ask(queue, 2)
    assert next_assignment(queue=queue, annotator=who) is None


def test_fewer_people_are_refused_and_so_is_the_queue_of_an_experiment():
    queue = builders.queue(overlap=2, steps=0)
    with pytest.raises(FewerPeople, match="Got 1, but 2 people"):
        ask(queue, 1)
    fixed = builders.queue(steps=0, selection={"experiment": "1"})
    with pytest.raises(FixedByPlan, match="Start another experiment"):
        ask(fixed, 2)
    assert set(Item.objects.values_list("queue__overlap", "overlap")) == {(2, 2), (1, 1)}


def in_threads(*calls: Callable[[], object]) -> None:
    """Run all of these concurrently."""
    start = Barrier(len(calls))

    def go(call: Callable[[], object]) -> None:
        start.wait()
        try:
            call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as threads:
        list(threads.map(go, calls))


@pytest.mark.django_db(transaction=True)
def test_the_number_grows_twice_under_a_crowd_and_every_item_gets_exactly_so_many_people():
    queue = builders.queue(items=40, steps=0)
    people = [builders.rule(of=queue.workspace) for _ in range(12)]

    def work(person: Annotator) -> None:
        chance = Random(person.name)
        while assignment := next_assignment(queue=queue, annotator=person):
            fate = chance.random()
            connections.close_all()  # as between two requests: there are fewer pooled connections than annotators
            if fate < 0.05:
                skip(assignment=assignment)
                continue
            if fate < 0.1:
                lapse(assignment)  # leaves; the slot is freed for those who find nothing else
                continue
            record(assignment=assignment, answer=Choice(chance.randint(-3, 3)))
            if fate > 0.95:
                undo_last(queue=queue, annotator=person)  # undone; the next round assigns it to them again

    def grow() -> None:
        for judged, number in ((15, 2), (50, 4)):
            for _ in range(500):  # all annotators may have finished before
                if Preference.objects.count() >= judged:
                    break
                sleep(0.01)
            ask(queue, number)

    in_threads(grow, *(lambda person=person: work(person) for person in people))

    # Annotators who had reached the end before the overlap was raised come back.
    Desk.objects.update(swept_at=None)
    for person in people:
        work(person)
    judges: dict[int, list[object]] = defaultdict(list)
    for item, annotator in Preference.objects.valid().values_list("item", "annotator"):
        judges[item].append(annotator)
    assert len(judges) == 40
    assert {len(who) for who in judges.values()} == {4}
    assert all(len(set(who)) == 4 for who in judges.values())
    assert not Item.objects.exclude(overlap=4, taken=4, judged=4).exists()
    assert sum(Desk.objects.values_list("judged", flat=True)) == totals_of(Queue.objects.get()).slots == 160


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "change",
    [
        lambda queue: ask(queue, 2),
        lambda queue: known_answers.draw_gold(queue=queue, count=1, by=None),
    ],
    ids=["raising", "drawing gold"],
)
def test_a_change_to_the_queue_waits_for_who_is_taking_an_item_and_lets_them_finish(change):
    """The item is already locked when the assignment, which refers to the queue, is stored, so neither may wait for the other."""
    queue = builders.queue(steps=0)
    annotator = builders.rule(of=queue.workspace)

    def steer() -> None:
        try:
            change(queue)
        except known_answers.NoOutcomeKnown:  # its only pair was just taken
            pass
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            item = Item.objects.select_for_update().get()
            Item.objects.update(taken=F("taken") + 1)
            steering = threads.submit(steer)
            wait_until_somebody_waits()
            Assignment.objects.create(
                workspace=queue.workspace,
                queue=queue,
                item=item,
                annotator=annotator,
                a_is_left=True,
                leased_until="2030-01-01T00:00Z",
            )
        steering.result(timeout=10)
    assert Item.objects.get().taken == 1


def wait_until_somebody_waits() -> None:
    """Wait until another connection of this database is blocked by a lock."""
    for _ in range(100):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            if cursor.fetchone()[0]:
                return
        sleep(0.05)
    raise AssertionError("nobody waits")


def settings_of(queue: Queue, **changes: object) -> dict[str, object]:
    return {"name": queue.name, "who": "all", "gold_percent": 0, "lease_minutes": 5, "overlap": 1, **changes}


def test_the_settings_page_raises_the_number_and_says_why_it_cannot_shrink(client: Client):
    workspace = factories.workspace()
    client.force_login(factories.member(Role.RESEARCHER, of=workspace).user)
    queue = builders.queue(of=workspace, items=2, steps=0)
    address = reverse("annotation:settings", args=[queue.pk])
    saved = client.post(address, settings_of(queue, overlap=3), follow=True).content.decode()
    assert "Saved. The changes apply from now on." in saved
    assert set(Item.objects.values_list("queue__overlap", "overlap")) == {(3, 3)}
    assert AuditEntry.objects.get(action="changed settings of").detail["overlap"] == [1, 3]
    refused = client.post(address, settings_of(queue, overlap=2))
    assert refused.status_code == 422
    assert "Got 2, but 3 people judge each item" in refused.content.decode()
    close_queue(queue=queue, by=None)
    closed = client.post(address, settings_of(queue, overlap=4), follow=True).content.decode()
    assert "The queue is closed; its new slots are assigned once it is open again." in closed


def test_the_number_of_an_experiment_is_shown_and_cannot_be_changed(client: Client):
    workspace = factories.workspace()
    client.force_login(factories.member(Role.RESEARCHER, of=workspace).user)
    queue = builders.queue(of=workspace, steps=0, overlap=2, selection={"experiment": "1"})
    address = reverse("annotation:settings", args=[queue.pk])
    assert "plan fixed it before the first answer" in client.get(address).content.decode()
    assert client.post(address, settings_of(queue, overlap=5)).status_code == 302
    assert Queue.objects.get().overlap == 2
