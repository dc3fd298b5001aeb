"""Experiments over trajectories that were imported or recorded elsewhere."""

import pytest
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.models import Item
from apps.arena.lifecycle import advance
from apps.arena.models import Experiment
from apps.arena.queries import current_standing
from apps.gateway.models import Path
from apps.policies.models import Policy
from apps.policies.promotions import champion
from contract.task_parts import MARK
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher(client) -> Membership:
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


@pytest.fixture
def policies(researcher) -> tuple[Policy, Policy]:
    """Both known by name only, as after an import."""
    return tuple(
        factories.policy(of=researcher.workspace, name=name, kind=Policy.Kind.EXTERNAL, location="")
        for name in ("old", "new")
    )


def attempts(policies, tasks=3, environment="shop", **fields):
    """One trajectory of each policy at each task; the second policy succeeds."""
    home = policies[0].workspace
    shares = []
    for number in range(tasks):
        task = factories.task(of=home, key=f"t{number}", environment=environment, **fields)
        shares.append(
            [
                factories.trajectory(of=task, policy=policy, success=bool(place), step_count=1)
                for place, policy in enumerate(policies)
            ]
        )
    return shares


def start(client, policies, **changes):
    arguments = {
        "name": "better?",
        "trajectories": "recorded",
        "policy_a": str(policies[0].pk),
        "policy_b": str(policies[1].pk),
        "environment": "shop",
        "min_tasks": 2,
        **changes,
    }
    return client.post(reverse("v1:experiments"), arguments, content_type="application/json")


def test_what_two_policies_did_elsewhere_is_judged_blind_at_once(client, policies):
    attempts(policies)
    answer = start(client, policies)
    assert answer.status_code == 201, answer.json()
    experiment = Experiment.objects.get()
    assert (experiment.state, experiment.environment, experiment.is_recorded) == ("labeling", "shop", True)
    pairs = Item.objects.filter(queue=experiment.queue).values_list("a__policy", "b__policy")
    assert list(pairs) == [(policies[0].pk, policies[1].pk)] * 3
    figures = current_standing(experiment)
    assert (figures.success_a.succeeded, figures.success_b.succeeded, figures.success_b.runs) == (0, 3, 3)


def test_what_arrives_later_changes_nothing(client, policies):
    rows = attempts(policies)
    start(client, policies)
    factories.trajectory(of=rows[0][0].task, policy=policies[0], success=True, step_count=1)
    experiment = Experiment.objects.get()
    assert experiment.queue.items.count() == 3
    assert current_standing(experiment).success_a.succeeded == 0


def test_the_first_trajectories_of_each_task_take_part(client, policies):
    rows = attempts(policies)
    for row in rows:
        factories.trajectory(of=row[0].task, policy=policies[0], success=True, step_count=1)
    start(client, policies, samples=1)
    assert set(Experiment.objects.get().recorded_a) == {row[0].pk for row in rows}


@pytest.mark.parametrize("source", ["sessions", "rollouts"])
def test_the_first_ones_are_those_that_began_first_not_those_that_ended_first(client, policies, source):
    rows = attempts(policies)
    home, reply = policies[0].workspace, {"role": "assistant", "content": "Done."}
    tasks = [row[0].task for row in rows]
    for row in rows:
        row[0].delete()
    batch = policies[0].rollouts.create(workspace=home, environment="shop", state="done")
    begun = {(task.pk, number): factories.session(of=home, messages=[reply]) for task in tasks for number in range(2)}
    expected = set()
    for task in tasks:
        for number in (1, 0):  # the later one ends first
            rolled_out = {"external_id": f"shop/{number}", "rollout_batch": batch} if source == "rollouts" else {}
            trajectory = factories.trajectory(of=task, policy=policies[0], step_count=1, **rolled_out)
            session = begun[task.pk, number]
            if source == "sessions":
                Path.objects.create(session=session, leaf=session.calls.get(), trajectory=trajectory, is_main=True)
        expected.add(trajectory.pk)
    start(client, policies, samples=1)
    assert set(Experiment.objects.get().recorded_a) == expected


def test_branches_and_trajectories_without_steps_are_no_attempts(client, policies):
    rows = attempts(policies, tasks=2)
    factories.trajectory(of=factories.task(of=policies[0].workspace, environment="shop"), policy=policies[0])
    first = rows[0][0]
    first.parent, first.branch_step = rows[1][0], 0
    first.save()
    answer = start(client, policies)
    assert answer.json()["fields"]["policy_b"] == [
        "old and new have attempted 1 of the same tasks there; a comparison needs 2 or more. "
        "Import or record more of their trajectories first."
    ]
    assert not Experiment.objects.exists()


def test_chats_of_sub_agents_are_no_attempts_at_tasks_of_their_own(client, policies):
    attempts(policies, tasks=2)
    part = factories.task(of=policies[0].workspace, key=f"t0{MARK}{'a' * 16}", environment="shop")
    for policy in policies:
        factories.trajectory(of=part, policy=policy, step_count=1)
    assert start(client, policies).status_code == 201
    assert Item.objects.count() == 2


def test_only_held_out_tasks_where_that_is_asked_for(client, policies):
    attempts(policies)
    assert start(client, policies, held_out_only=True).status_code == 400
    attempts(policies, environment="maze", held_out=True)
    assert start(client, policies, environment="maze", held_out_only=True).status_code == 201


def test_the_rule_ends_it_and_one_of_them_is_promoted_where_no_environment_has_a_name(client, policies):
    attempts(policies, tasks=12, environment="")
    start(client, policies, environment="", min_tasks=2)
    experiment = Experiment.objects.get()
    for item in experiment.queue.items.all():
        factories.preference(-3, on=item)
    Item.objects.update(judged=1, taken=1)
    advance(experiment)
    experiment.refresh_from_db()
    assert (experiment.state, experiment.verdict["outcome"]) == ("stopped", "b_better")
    promoted = {"policy": str(policies[1].pk), "reason": "People prefer it."}
    client.post(reverse("v1:experiment_promote", args=[experiment.pk]), promoted, content_type="application/json")
    assert champion(workspace=experiment.workspace, environment="no environment") == policies[1]
    assert client.get(reverse("arena:experiment", args=[experiment.pk])).status_code == 200


def test_an_environment_may_have_any_name(client, policies):
    attempts(policies, environment="a/b ?#%")
    start(client, policies, environment="a/b ?#%")
    experiment = Experiment.objects.get()
    for policy, reason in zip(policies, ("first", "then"), strict=True):
        body = {"policy": str(policy.pk), "reason": reason}
        client.post(reverse("v1:experiment_promote", args=[experiment.pk]), body, content_type="application/json")
    page = client.get(reverse("arena:experiment", args=[experiment.pk])).content.decode()
    address = reverse("arena:roll_back", args=["a/b ?#%"])
    assert address in page
    client.post(address, {"reason": "It was better."})
    assert champion(workspace=experiment.workspace, environment="a/b ?#%") == policies[0]


def test_the_page_starts_one_and_says_what_is_missing(client, policies):
    form = {
        "name": "better?",
        "policy_a": policies[0].pk,
        "policy_b": policies[1].pk,
        "environment": "shop",
        "tasks": 10,
        "samples": 1,
        "overlap": 1,
        "min_tasks": 2,
    }
    attempts(policies, tasks=1)
    refused = client.post(reverse("arena:new_recorded"), form)
    assert refused.status_code == 422
    assert "have attempted 1 of the same tasks there" in refused.content.decode()
    for number in (5, 6):
        task = factories.task(of=policies[0].workspace, key=f"more-{number}", environment="shop")
        for policy in policies:
            factories.trajectory(of=task, policy=policy, step_count=1)
    assert client.post(reverse("arena:new_recorded"), form).status_code == 302
    page = client.get(reverse("arena:experiment", args=[Experiment.objects.get().pk])).content.decode()
    assert "already recorded, the first of each task" in page


def test_another_workspaces_policies_and_environments_are_not_there(client, researcher, policies):
    theirs = factories.policy()
    factories.task(of=theirs.workspace, environment="theirs")
    attempts(policies)
    assert list(start(client, policies, policy_b=str(theirs.pk)).json()["fields"]) == ["policy_b"]
    assert list(start(client, policies, environment="theirs").json()["fields"]) == ["environment"]
    assert "theirs" not in client.get(reverse("arena:new_recorded")).content.decode()
