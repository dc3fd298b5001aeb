"""How a live experiment ends, and what its traffic split does then."""

import threading
import time

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership
from apps.annotation.models import Queue
from apps.arena.lifecycle import advance, promote_from, stop_experiment
from apps.arena.models import Experiment
from apps.gateway.splits.changes import ArmPlan, UnderComparison, change_split
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import open_split_session
from apps.policies.promotions import AlreadyChampion, champion
from tests import factories
from tests.arena.live.experiments import arms_of, both, judge, start
from tests.locks import somebody_waits

pytestmark = pytest.mark.django_db


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
