"""Experiments fed by the sessions of a traffic split as they end."""

import json
import re
import threading
import time
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.models import Item, Queue
from apps.annotation.queues.queue_lifecycle import close_queue
from apps.arena import live_feed, win_rates
from apps.arena.lifecycle import advance, promote_from, stop_experiment
from apps.arena.models import Experiment, LiveAttempt
from apps.arena.queries import SessionCost, current_standing, figures_of
from apps.common.ids import new_id
from apps.gateway import sessions
from apps.gateway.models import Call, Session
from apps.gateway.splits.changes import ArmPlan, UnderComparison, change_split, switch
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import open_split_session
from apps.policies.models import Policy
from apps.policies.promotions import AlreadyChampion, champion
from tests import factories
from tests.locks import somebody_waits

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher(client: Client) -> Membership:
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


@pytest.fixture
def split(researcher: Membership) -> TrafficSplit:
    """Two arms; the first is the champion of the environment "shop"."""
    home = researcher.workspace
    arms = [factories.served_policy(of=home, name=name) for name in ("old", "new")]
    return factories.traffic_split(of=home, arms=arms, environment="shop", by=researcher.user)


def arms_of(split: TrafficSplit) -> list[Policy]:
    return [arm.policy for arm in split.arms.order_by("pk")]


def start(client: Client, split: TrafficSplit, **changes: Any) -> Any:
    body = {"name": "better?", "trajectories": "live", "split": str(split.pk), "tasks": 20, "min_tasks": 2, **changes}
    return client.post(reverse("v1:experiments"), body, content_type="application/json")


def play(
    split: TrafficSplit, task: str, *, side: int, success: bool | None = None, end: bool = True, **facts: Any
) -> Session:
    """A session at `task` of the split's first or second arm."""
    split.refresh_from_db()
    number = 0
    while True:  # until this side is drawn
        unit = f"{task} {number}"
        made = open_split_session(
            split=split, by=split.created_by, unit=unit, task={"key": task, "instruction": task, "environment": "shop"}
        ).session
        if made.drawn == arms_of(split)[side]:
            break
        made.delete()
        number += 1
    for name, value in facts.items():
        setattr(made, name, value)
    made.save()
    factories.call(of=made, message={"role": "assistant", "content": f"I did {task} as number {side}: {made.pk}."})
    if end:
        sessions.finish_session(session=made, success=success)
    return made


def both(split: TrafficSplit, *tasks: str) -> None:
    for task in tasks:
        play(split, task, side=0, success=False)
        play(split, task, side=1, success=True)


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


def test_what_a_session_of_either_arm_costs_is_told_of_those_compared(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    both(split, "lamp", "chair")
    play(split, "alone", side=0)
    advance(experiment)
    a = current_standing(experiment).cost_a
    assert (str(a), a and a.mean, a and a.sessions) == ("unknown", None, 2)
    old, new = arms_of(split)
    Call.objects.filter(session__policy=old).update(cost="0.001")
    Call.objects.filter(session__policy=new).update(cost="0.003", is_cost_estimated=True)
    answer = client.get(reverse("v1:experiment", args=[experiment.pk])).json()["standing"]
    assert answer["cost_a"] == {
        "sessions": 2,
        "calls": 2,
        "dollars": "0.002",
        "mean": "0.001",
        "estimated_calls": 0,
        "unknown_calls": 0,
    }
    page = client.get(reverse("arena:experiment", args=[experiment.pk])).content.decode()
    assert "$0.0010</span>" in page
    assert "about $0.0030</span>" in page
    stop_experiment(experiment=experiment, by=split.created_by)  # type: ignore[arg-type]  # it has one
    Call.objects.update(cost="9")
    experiment.refresh_from_db()
    assert figures_of(experiment).cost_b == SessionCost(
        sessions=2, calls=2, dollars="0.006", mean="0.003", estimated_calls=2, unknown_calls=0
    )


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


def judge(experiment: Experiment, strength: int) -> None:
    for item in experiment.queue.items.filter(judged=0):  # type: ignore[union-attr]  # it has one
        factories.preference(strength, on=item)
    experiment.queue.items.update(judged=1, taken=1)  # type: ignore[union-attr]


def test_success_may_be_watched_while_sessions_come_in(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    both(split, *(f"task {number}" for number in range(6)))
    advance(experiment)
    figures = current_standing(experiment)
    assert figures.success_b.rate == win_rates.confidence_sequence(
        [1.0] * 6
    )  # Wilson's interval errs in a third of such watched experiments
    assert figures.success_a.rate == win_rates.confidence_sequence([0.0] * 6)


def test_all_pairs_so_far_judged_is_no_end_and_the_rule_ends_it(
    client: Client, split: TrafficSplit, researcher: Membership
) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    both(split, "lamp", "chair")
    advance(experiment)
    judge(experiment, -3)
    advance(experiment)
    assert Experiment.objects.get().state == "labeling"  # 2 of 20 tasks
    both(split, *(f"task {number}" for number in range(12)))
    advance(experiment)
    judge(Experiment.objects.get(), -3)
    advance(experiment)
    experiment.refresh_from_db()
    assert (experiment.state, experiment.verdict["outcome"], experiment.verdict["stopped_by_rule"]) == (
        "stopped",
        "b_better",
        True,
    )
    split.refresh_from_db()
    assert split.experiment is None
    assert open_split_session(split=split, by=researcher.user, unit="x").session.experiment is None
    advance(experiment)
    path = reverse("v1:experiment_promote", args=[experiment.pk])
    answer = client.post(
        path, {"policy": str(arms_of(split)[1].pk), "reason": "Better."}, content_type="application/json"
    )
    assert answer.status_code == 200, answer.text
    split.refresh_from_db()
    assert (split.is_on, champion(workspace=split.workspace, environment="shop").name) == (False, "new")
    assert open_split_session(split=split, by=researcher.user, unit="y").session.policy.name == "new"


def test_the_champion_that_wins_gets_all_sessions_too(
    client: Client, split: TrafficSplit, researcher: Membership
) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    stop_experiment(experiment=experiment, by=researcher.user)
    arguments = {
        "experiment": experiment,
        "policy": arms_of(split)[0],
        "by": researcher.user,
        "reason": "Still better.",
    }
    promote_from(**arguments)
    split.refresh_from_db()
    assert not split.is_on
    experiment.refresh_from_db()
    with pytest.raises(AlreadyChampion):
        promote_from(**{**arguments, "experiment": Experiment.objects.get()})


def test_a_split_that_compares_something_else_by_now_stays_on(
    client: Client, split: TrafficSplit, researcher: Membership
) -> None:
    start(client, split)
    first = Experiment.objects.get()
    stop_experiment(experiment=first, by=researcher.user)
    assert start(client, split, name="again?").status_code == 201
    page, promote = (reverse(f"arena:{name}", args=[first.pk]) for name in ("experiment", "promote"))
    assert "is turned off" not in client.get(page).content.decode()
    old, new = arms_of(split)
    content = client.post(promote, {"policy": str(new.pk), "reason": "Better."}, follow=True).content.decode()
    assert "new is champion of shop.</" in content
    second = Experiment.objects.get(name="again?")
    split.refresh_from_db()
    assert (second.state, split.is_on, split.experiment) == ("labeling", True, second.pk)

    stop_experiment(experiment=second, by=researcher.user)
    third = factories.served_policy(of=researcher.workspace)
    change_split(split=split, arms=[ArmPlan(new, 9), ArmPlan(third, 1)], by=researcher.user)
    assert promote_from(experiment=first, policy=old, by=researcher.user, reason="It was better.") is None
    split.refresh_from_db()
    assert split.is_on


def test_promoting_while_it_runs_ends_it_and_says_so(
    client: Client, split: TrafficSplit, researcher: Membership
) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    both(split, "lamp", "chair")
    advance(experiment)
    page = reverse("arena:experiment", args=[experiment.pk])
    assert "This ends the live experiment" in client.get(page).content.decode()
    sent = {"policy": str(arms_of(split)[1].pk), "reason": "It never loses an order."}
    content = client.post(reverse("arena:promote", args=[experiment.pk]), sent, follow=True).content.decode()
    assert "The live experiment has ended." in content
    words = f"Ended when {researcher.user.name} promoted new, before the stopping rule was met"
    assert words in content
    experiment.refresh_from_db()
    assert (experiment.state, experiment.verdict["promoted"]) == ("stopped", "new")
    assert experiment.verdict["stopped_by_rule"] is False
    assert experiment.queue is not None
    assert experiment.queue.state == Queue.State.CLOSED
    split.refresh_from_db()
    assert (split.is_on, split.experiment) == (False, None)
    assert "This ends the live experiment" not in content
    assert client.post(reverse("arena:promote", args=[experiment.pk]), sent).status_code == 302  # champion already


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


def test_who_takes_part_stays_while_shares_may_change(
    client: Client, split: TrafficSplit, researcher: Membership
) -> None:
    start(client, split)
    old, new = arms_of(split)
    third = factories.served_policy(of=researcher.workspace)
    change_split(split=split, arms=[ArmPlan(old, 9), ArmPlan(new, 1)], by=researcher.user)
    with pytest.raises(UnderComparison, match="compares these policies"):
        change_split(split=split, arms=[ArmPlan(old, 9), ArmPlan(third, 1)], by=researcher.user)
    with pytest.raises(UnderComparison, match="draw by something else"):
        change_split(split=split, arms=[ArmPlan(old, 9), ArmPlan(new, 1)], unit="task", by=researcher.user)


def test_what_cannot_feed_is_refused_with_words(client: Client, split: TrafficSplit, researcher: Membership) -> None:
    home = researcher.workspace
    alone = factories.traffic_split(of=home, arms=[factories.served_policy(of=home)])
    by_task = factories.traffic_split(of=home, unit="task")
    off = factories.traffic_split(of=home)
    switch(split=off, is_on=False, by=researcher.user)
    for other, words in (
        (alone, "has 1 arm;"),
        (by_task, "draws by task"),
        (off, "is off"),
        (factories.traffic_split(), "one of the choices"),
    ):
        assert words in start(client, other, name=str(other.pk)).json()["fields"]["split"][0]
    assert start(client, split).status_code == 201
    assert "feeds an experiment already" in start(client, split, name="again").json()["fields"]["split"][0]


def test_annotators_see_no_name_of_a_policy(client: Client, split: TrafficSplit, researcher: Membership) -> None:
    start(client, split)
    both(split, "lamp")
    advance(Experiment.objects.get())
    annotator = factories.member(Role.ANNOTATOR, of=researcher.workspace)
    client.force_login(annotator.user)
    queue = Queue.objects.get()
    desk = client.get(reverse("annotation:desk", args=[queue.pk]), follow=True).text
    assert "I did lamp" in desk
    for name in ("old", "new", split.name, *(str(policy.pk) for policy in arms_of(split))):
        assert f">{name}<" not in desk
        assert f'"{name}"' not in desk
    for path in ("gateway:splits", "arena:list"):
        assert client.get(reverse(path)).status_code == 404


def test_the_page_of_a_live_experiment_says_what_it_waits_for(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    path = reverse("arena:experiment", args=[experiment.pk])
    assert "Waiting for pairs" in client.get(path).text
    both(split, "lamp")
    advance(experiment)
    assert "1 of 20 tasks have been attempted by both arms so far" in client.get(path).text
    assert "no new sessions take part" not in client.get(path).text
    switch(split=split, is_on=False, by=None)
    assert f"{split} is off, so no new sessions take part." in client.get(path).text
    close_queue(queue=Queue.objects.get(), by=None)
    assert "Its queue is closed, so nobody is given pairs to judge." in client.get(path).text


def test_one_that_was_stopped_before_its_first_pair_had_no_identical_ones(
    client: Client, split: TrafficSplit, researcher: Membership
) -> None:
    start(client, split)
    experiment = Experiment.objects.get()
    stop_experiment(experiment=experiment, by=researcher.user)
    page = client.get(reverse("arena:experiment", args=[experiment.pk])).text
    assert "identical" not in page
    assert f"Stopped early by {researcher.user.name}." in " ".join(page.split())
    assert "Not decided" in page
    assert "No difference shown" not in page  # nobody has looked for one


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


@pytest.mark.django_db(transaction=True)
def test_an_experiment_may_start_while_the_one_before_is_being_ended(client: Client, split: TrafficSplit) -> None:
    start(client, split)
    first, ended = Experiment.objects.get(), []

    def end() -> None:
        try:
            stop_experiment(experiment=first, by=split.created_by)  # type: ignore[arg-type]  # it has one
            ended.append(True)
        finally:
            connection.close()

    ending = threading.Thread(target=end)
    with transaction.atomic():
        TrafficSplit.objects.select_for_update(no_key=True).get(pk=split.pk)
        ending.start()
        deadline = time.monotonic() + 10
        while not somebody_waits():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        response = start(client, split, name="still better?")
    assert (response.status_code, response.json()["detail"]) == (
        400,
        f"split: {split} feeds an experiment already. End that one first.",
    )
    ending.join(10)
    assert ended == [True]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small, so that each test processes several chunks."""
    monkeypatch.setattr(live_feed, "BATCH", 5)


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
