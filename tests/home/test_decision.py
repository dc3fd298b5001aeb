from datetime import timedelta

import pytest
from django.utils.timezone import now

from apps.accounts.models import Role
from apps.annotation.models import Assignment, Item, Queue
from apps.arena.models import Experiment
from apps.home.decision import decision_for
from apps.jobs.models import JobState
from apps.policies.models import Policy
from apps.policies.promotions import promote
from apps.training.models import Run
from apps.trajectories.models import ImportBatch
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def member():
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def home(member):
    return member.workspace


def experiment(home, **fields):
    return Experiment.objects.create(
        **{
            "workspace": home,
            "name": "dpo against base",
            "environment": "office",
            "policy_a": factories.policy(of=home, name="base"),
            "policy_b": factories.policy(of=home, name="dpo"),
            "state": Experiment.State.STOPPED,
            "stopped_at": now(),
            "verdict": {"outcome": "b_better", "stopped_by_rule": True},
            **fields,
        }
    )


def judged_queue(home, **fields):
    queue = factories.queue(of=home, name="pairs", item_count=1, **fields)
    item = factories.item(of=queue, taken=1, judged=1)
    factories.preference(on=item)
    return queue


def test_a_new_workspace_needs_trajectories(member):
    assert decision_for(member).title == "Import your first trajectories"


def test_trajectories_need_a_queue(member, home):
    factories.trajectory(of=factories.task(of=home))
    assert decision_for(member).title == "There are no queues yet"


def test_an_open_queue_with_work_needs_no_decision(member, home):
    factories.item(of=factories.queue(of=home, item_count=1))
    assert decision_for(member) is None


def test_a_fully_judged_queue_wants_to_be_frozen(member, home):
    queue = judged_queue(home)
    decision = decision_for(member)
    assert decision.title == "“pairs” is fully judged"
    assert decision.action == "Freeze a version"
    factories.dataset_version(of=home, recipe={"queues": [str(queue.pk)]})
    assert "fully judged" not in decision_for(member).title


def test_a_queue_of_ratings_wants_to_be_frozen_too(member, home):
    queue = factories.queue(of=home, name="ratings", kind=Queue.Kind.RATING, item_count=1)
    one = factories.trajectory(of=factories.task(of=home))
    Item.objects.create(queue=queue, kind=queue.kind, position=0, task=one.task, a=one, overlap=1, taken=1, judged=1)
    assert decision_for(member).title == "“ratings” is fully judged"


def test_a_queue_that_somebody_is_still_at_is_not_fully_judged(member, home):
    judged_queue(home)
    Assignment.objects.update(state=Assignment.State.OPEN)
    assert decision_for(member) is None


def test_the_queue_of_an_experiment_is_not_offered_for_freezing(member, home):
    experiment(home, queue=judged_queue(home), verdict={"outcome": "no_difference_shown", "stopped_by_rule": True})
    assert decision_for(member) is None


def test_an_unused_version_wants_to_be_trained_on(member, home):
    version = factories.dataset_version(of=home)
    factories.trajectory(of=factories.task(of=home))
    factories.item(of=factories.queue(of=home, item_count=1))
    assert decision_for(member).title == f"{version} is frozen and unused"
    factories.run(of=home, version=version)
    assert decision_for(member) is None


def test_a_failed_run_says_why_until_another_is_launched(member, home):
    factories.item(of=factories.queue(of=home, item_count=1))
    version = factories.dataset_version(of=home)
    factories.run(of=home, version=version, name="dpo-3", state=Run.State.FAILED, failure={"message": "Out of memory."})
    decision = decision_for(member)
    assert (decision.title, decision.reason) == ("Training run “dpo-3” failed", "Out of memory.")
    factories.run(of=home, version=version)
    assert decision_for(member) is None


def test_a_policy_that_a_run_made_wants_to_be_compared(member, home):
    factories.item(of=factories.queue(of=home, item_count=1))
    base = factories.policy(of=home, name="first", kind=Policy.Kind.MODEL)
    made = factories.policy(of=home, name="dpo-3", kind=Policy.Kind.MODEL, base=base)
    factories.run(of=home, result=made, state=Run.State.FINISHED, finished_at=now())
    decision = decision_for(member)
    assert decision.title == "How good is dpo-3?"
    assert "Have it and first attempt" in decision.reason
    assert decision.url.endswith(f"?a={base.pk}&b={made.pk}")
    experiment(home, policy_b=made, state=Experiment.State.LABELING, stopped_at=None, verdict={})
    assert decision_for(member) is None


def test_a_winner_comes_before_everything_else_until_it_is_promoted(member, home):
    judged_queue(home)
    ended = experiment(home)
    assert decision_for(member).title == "“dpo against base” has a winner: dpo"
    promote(policy=ended.policy_b, environment="office", by=member.user, reason="it won")
    assert decision_for(member).title == "“pairs” is fully judged"


def test_an_experiment_that_somebody_stopped_early_asks_for_nothing(member, home):
    experiment(home, verdict={"outcome": "b_better", "stopped_by_rule": False})
    factories.item(of=factories.queue(of=home, item_count=1))
    assert decision_for(member) is None


def test_a_failed_import_says_why(member, home):
    ImportBatch.objects.create(
        workspace=home, filename="runs.jsonl", state=JobState.FAILED, failure={"message": "The disk is full."}
    )
    assert decision_for(member).reason == "The disk is full."


def test_old_failures_are_let_go(member, home):
    factories.item(of=factories.queue(of=home, item_count=1))
    batch = ImportBatch.objects.create(workspace=home, filename="runs.jsonl", state=JobState.FAILED)
    ImportBatch.objects.filter(pk=batch.pk).update(created_at=now() - timedelta(days=4))
    assert decision_for(member) is None


def test_what_happens_in_another_workspace_asks_nothing_here(member):
    elsewhere = factories.workspace()
    experiment(elsewhere)
    judged_queue(elsewhere)
    assert decision_for(member).title == "Import your first trajectories"
