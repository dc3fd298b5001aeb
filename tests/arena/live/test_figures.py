"""What pages and REST tell of a live experiment, and to whom."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.models import Queue
from apps.annotation.queues.queue_lifecycle import close_queue
from apps.arena import win_rates
from apps.arena.lifecycle import advance, stop_experiment
from apps.arena.models import Experiment
from apps.arena.queries import SessionCost, current_standing, figures_of
from apps.gateway.models import Call
from apps.gateway.splits.changes import switch
from apps.gateway.splits.models import TrafficSplit
from tests import factories
from tests.arena.live.experiments import arms_of, both, play, start

pytestmark = pytest.mark.django_db


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
