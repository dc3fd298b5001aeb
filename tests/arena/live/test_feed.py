"""Experiments fed by the sessions of a traffic split as they end."""

import json
import re
import threading

import pytest
from django.db import connection
from django.test import Client

from apps.accounts.models import Membership
from apps.annotation.models import Item, Queue
from apps.arena import live_feed
from apps.arena.lifecycle import advance
from apps.arena.models import Experiment, LiveAttempt
from apps.arena.queries import current_standing
from apps.common.ids import new_id
from apps.gateway import sessions
from apps.gateway.models import Call, Session
from apps.gateway.splits.changes import switch
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import open_split_session
from tests.arena.live.experiments import arms_of, both, play, start

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small, so that each test processes several chunks."""
    monkeypatch.setattr(live_feed, "BATCH", 5)


def test_pairs_come_up_as_sessions_of_both_arms_end_on_a_task(client: Client, split: TrafficSplit) -> None:
    answer = start(client, split)
    assert answer.status_code == 201, answer.text
    experiment = Experiment.objects.get()
    assert (experiment.state, experiment.queue, experiment.environment) == ("labeling", None, "shop")
    play(split, "lamp", side=0)
    advance(experiment)
    assert Item.objects.count() == 0
    play(split, "lamp", side=1)
    both(split, "chair", "table")
    advance(experiment)
    experiment.refresh_from_db()
    assert experiment.queue.item_count == 3
    policies = arms_of(split)
    pairs = experiment.queue.items.order_by("position").values_list("position", "task__key", "a__policy", "b__policy")
    assert [(place, a, b) for place, _, a, b in pairs] == [(n, policies[0].pk, policies[1].pk) for n in range(3)]
    assert {task for _, task, *_ in pairs} == {"lamp", "chair", "table"}
    both(split, "bed")
    advance(experiment)
    assert experiment.queue.items.get(position=3).task.key == "bed"
    figures = current_standing(experiment)
    assert (figures.items, figures.tasks_planned, figures.success_b.succeeded, figures.success_b.runs) == (4, 20, 3, 3)


def test_fed_again_it_changes_nothing(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    both(split, "lamp", "chair")
    experiment = Experiment.objects.get()
    assert live_feed.feed(experiment) == 4
    assert live_feed.feed(experiment) == 0
    assert Item.objects.count() == 2
    assert Queue.objects.count() == 1


def test_the_first_session_of_each_arm_at_a_task_takes_part(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    first = play(split, "lamp", side=0)
    play(split, "lamp", side=0)
    play(split, "lamp", side=1)
    play(split, "lamp", side=1)
    advance(Experiment.objects.get())
    assert Item.objects.get().a == first.paths.get().trajectory


@pytest.mark.parametrize("has_steps", [True, False])
def test_a_session_that_ends_waits_for_an_earlier_one_of_its_task_and_arm(
    client: Client, split: TrafficSplit, has_steps: bool
) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    long = play(split, "lamp", side=0, end=False)
    if not has_steps:
        long.calls.all().delete()
    short = play(split, "lamp", side=0)
    play(split, "lamp", side=1)
    both(split, "chair")
    advance(experiment)
    assert [item.task.key for item in Item.objects.all()] == ["chair"]
    sessions.finish_session(session=long)
    advance(experiment)
    first = long if has_steps else short
    assert Item.objects.get(task__key="lamp").a == first.paths.get().trajectory


@pytest.mark.parametrize("key", ["a\x00b", "\ud800", '"key":'])
def test_odd_keys_of_tasks_wait_like_others(client: Client, split: TrafficSplit, key: str) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    made = play(split, "lamp", side=0, end=False)
    other = play(split, "lamp", side=0, end=False)
    Session.objects.filter(pk__in=[made.pk, other.pk]).update(task={"key": key, "instruction": "Buy a lamp."})
    other.refresh_from_db()
    sessions.finish_session(session=other)
    assert live_feed.feed(experiment) == 0
    made.refresh_from_db()
    sessions.finish_session(session=made)
    assert live_feed.feed(experiment) == 2


def test_sessions_that_name_no_task_wait_for_no_other(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    made = [play(split, "lamp", side=0, end=False) for _ in range(2)]
    Session.objects.update(task={"instruction": 'Of "key": lamp.'})
    made[1].refresh_from_db()
    sessions.finish_session(session=made[1])
    assert live_feed.feed(experiment) == 1


def test_what_began_before_or_was_not_drawn_takes_no_part(
    client: Client, split: TrafficSplit, researcher: Membership
) -> None:
    both(split, "before")
    early = play(split, "across", side=0, end=False)
    start(client, split)
    sessions.finish_session(session=early)
    play(split, "across", side=1)
    switch(split=split, is_on=False, by=researcher.user)
    off = open_split_session(split=split, by=researcher.user, unit="x").session
    assert (off.drawn, off.experiment) == (None, None)
    advance(Experiment.objects.get())
    assert Item.objects.count() == 0


def test_sessions_without_a_step_take_no_part_and_abandoned_ones_do(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    empty = open_split_session(split=TrafficSplit.objects.get(), by=split.created_by, unit="x").session
    sessions.finish_session(session=empty)
    play(split, "lamp", side=0)
    sessions.abandon_session(session=play(split, "lamp", side=1, end=False))
    advance(Experiment.objects.get())
    assert Item.objects.count() == 1
    assert not Session.objects.filter(is_fed=False).exists()


def test_a_session_that_failed_over_counts_for_the_arm_that_was_drawn(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    play(split, "lamp", side=0)
    served = play(split, "lamp", side=1, policy=arms_of(split)[0], failover="It was away.")
    advance(Experiment.objects.get())
    item = Item.objects.get()
    assert item.b == served.paths.get().trajectory
    assert item.b.policy == arms_of(split)[0]
    assert LiveAttempt.objects.get(side=LiveAttempt.Side.B).trajectory == item.b


def test_only_as_many_tasks_as_the_plan_says(client: Client, split: TrafficSplit) -> None:
    start(client, split, tasks=2)
    both(split, "lamp", "chair", "table")
    experiment = Experiment.objects.get()
    advance(experiment)
    both(split, "bed")
    advance(experiment)
    assert Item.objects.count() == 2


def test_identical_trajectories_are_ties_that_nobody_is_asked_about(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    for side in (0, 1):
        made = play(split, "lamp", side=side, end=False)
        Call.objects.filter(session=made).update(
            reply={"choices": [{"index": 0, "message": {"role": "assistant", "content": "Same."}}]}
        )
        sessions.finish_session(session=made)
    experiment = Experiment.objects.get()
    advance(experiment)
    experiment.refresh_from_db()
    assert (len(experiment.alike), experiment.queue) == (1, None)
    figures = current_standing(experiment)
    assert (figures.alike, figures.win_rate.n, figures.outcome) == (1, 0, "undecided")


@pytest.mark.django_db(transaction=True)
def test_two_workers_that_feed_at_once_add_each_pair_once(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    both(split, *(f"task {number}" for number in range(8)))
    experiment = Experiment.objects.get()
    barrier, fed = threading.Barrier(2), []

    def work() -> None:
        try:
            barrier.wait(10)
            fed.append(live_feed.feed(Experiment.objects.get()))
        finally:
            connection.close()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sum(fed) == 16  # no session was processed twice
    experiment.refresh_from_db()
    assert Queue.objects.count() == 1
    assert sorted(experiment.queue.items.values_list("position", flat=True)) == list(range(8))
    assert experiment.queue.item_count == 8


def test_thousands_of_sessions_that_wait_are_read_once(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    made = play(split, "lamp", side=0, end=False)
    columns = {field.attname: getattr(made, field.attname) for field in Session._meta.concrete_fields}
    ended = {"state": Session.State.ABANDONED, "ended_at": made.created_at}
    for changes in ({}, ended):  # the second ones wait for the first ones
        Session.objects.bulk_create(
            Session(
                **columns
                | changes
                | {
                    "id": new_id(),
                    "key_digest": f"{len(changes)} {number}",
                    "task": {"key": f"{number}", "text": "x" * 3000},
                }
            )
            for number in range(3000)
        )
    query, parameters = live_feed._to_feed(experiment.pk).order_by("id").query.sql_with_params()
    with connection.cursor() as cursor:
        # As if statistics were from before the sessions came.
        cursor.execute("UPDATE pg_class SET reltuples = 1, relpages = 1000 WHERE relname = 'gateway_session'")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", parameters)
        plan = json.dumps(cursor.fetchone())
    assert live_feed.feed(experiment) == 0
    assert {int(count) for count in re.findall(r'"Actual Loops": (\d+)', plan)} == {1}
