from datetime import timedelta

import pytest
from django.utils.timezone import now

from apps.accounts.models import Role
from apps.annotation.models import Desk
from apps.common.ids import first_id_at
from apps.datasets.models import Version
from apps.home.glance import stations
from apps.jobs.models import JobState
from apps.policies.promotions import promote
from apps.training.models import Run
from apps.trajectories.models import ImportBatch, RolloutBatch
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def member():
    return factories.member(Role.RESEARCHER)


def station(member, name):
    return next(station for station in stations(member) if station.name == name)


def test_the_stations_are_in_the_order_of_the_loop(member):
    names = [station.name for station in stations(member)]
    assert names == ["Trajectories", "Judgments", "Versions", "Training runs", "Policies", "Experiments"]


def test_what_is_older_than_a_day_is_there_but_not_fresh(member):
    task = factories.task(of=member.workspace)
    factories.trajectory(of=task)
    factories.trajectory(of=task, id=first_id_at(now() - timedelta(days=2)))
    seen = station(member, "Trajectories")
    assert (seen.there.number, seen.fresh.number) == (2, 1)


def test_files_and_rollouts_on_their_way_are_named(member):
    ImportBatch.objects.create(workspace=member.workspace, filename="a.jsonl", state=JobState.RUNNING)
    RolloutBatch.objects.create(
        workspace=member.workspace,
        policy=factories.policy(of=member.workspace),
        environment="office",
        state=JobState.RUNNING,
        finished=3,
        total=40,
    )
    seen = station(member, "Trajectories")
    assert seen.now == "1 file coming in, 3 of 40 rollouts done"
    assert seen.is_active


def test_judgments_are_measured_against_what_open_queues_ask_for(member):
    queue = factories.queue(of=member.workspace, item_count=10, overlap=2)
    Desk.objects.create(queue=queue, annotator=factories.annotator(of=member.workspace), judged=7)
    taken_back = factories.preference(on=factories.item(of=queue))
    factories.preference(on=factories.item(of=queue))
    taken_back.retracted_at = now()
    taken_back.save()
    seen = station(member, "Judgments")
    assert seen.now == "7 of 20 in open queues"
    assert seen.there.number == 1


def test_a_run_says_how_far_it_is(member):
    version = factories.dataset_version(of=member.workspace)
    factories.run(of=member.workspace, version=version, name="dpo-3", state=Run.State.RUNNING, step=12, total_steps=300)
    seen = station(member, "Training runs")
    assert seen.now == "dpo-3 · step 12 of 300"
    assert seen.is_active
    factories.run(of=member.workspace, version=version)
    assert station(member, "Training runs").now == "2 in progress"


def test_a_version_that_is_being_frozen_moves_and_does_not_count_yet(member):
    version = factories.dataset_version(of=member.workspace)
    Version.objects.create(workspace=member.workspace, dataset=version.dataset, number=2, state=Version.State.FREEZING)
    seen = station(member, "Versions")
    assert seen.now == f"{version.dataset} v2 · freezing"
    assert (seen.there.number, seen.is_active) == (1, True)


def test_champions_are_named(member):
    best = factories.policy(of=member.workspace, name="dpo-3")
    promote(policy=best, environment="office", by=member.user, reason="it won")
    assert station(member, "Policies").now == "dpo-3 leads office"


def test_another_workspace_adds_nothing(member):
    factories.run()
    factories.preference()
    assert all(station.there.number == 0 and not station.now for station in stations(member))
