"""Held-out success is reported level by level, and two policies are compared only on tasks that both attempted."""

import pytest
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.policies import promotions
from apps.policies.held_out_success import held_out_success
from apps.policies.models import Policy
from apps.trajectories.models import RolloutBatch, Task
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


def tasks(of: Membership, level: str, count: int) -> list[Task]:
    return [
        factories.task(of=of.workspace, environment="office", difficulty=level, held_out=True) for _ in range(count)
    ]


def attempted(policy: Policy, results: dict[Task, list[bool]]) -> RolloutBatch:
    """A batch of rollouts with the results of each task's attempts."""
    batch = RolloutBatch.objects.create(
        workspace=policy.workspace,
        policy=policy,
        environment="office",
        config={"tasks": {"split": "held_out", "count": len(results), "levels": [], "seed": 0}, "samples": 1},
        state="done",
        total=len(results),
    )
    for task, outcomes in results.items():
        for success in outcomes:
            factories.trajectory(of=task, policy=policy, rollout_batch=batch, success=success)
    return batch


def page(member: Membership, name: str = "policies:list", *args: object) -> str:
    return " ".join(as_(member).get(reverse(name, args=args)).content.decode().split())


def test_levels_are_never_pooled(researcher: Membership):
    policy = factories.policy(of=researcher.workspace)
    easy, hard = tasks(researcher, "L1", 4), tasks(researcher, "L3", 8)
    attempted(policy, {task: [True] for task in easy} | {task: [n == 0] for n, task in enumerate(hard)})
    [first, second] = held_out_success(researcher, [policy])[policy.pk].levels
    assert (first.level, first.tasks, first.value) == ("L1", 4, 1.0)
    assert (second.level, second.tasks, second.value) == ("L3", 8, 0.125)
    text = page(researcher)
    assert "4 tasks" in text
    assert "8 tasks" in text
    assert "42 %" not in text  # 5 of 12


def test_several_attempts_at_a_task_are_one_piece_of_evidence(researcher: Membership):
    policy = factories.policy(of=researcher.workspace)
    first, second = tasks(researcher, "L1", 2)
    attempted(policy, {first: [True] * 9, second: [False]})
    [level] = held_out_success(researcher, [policy])[policy.pk].levels
    assert (level.tasks, level.value) == (2, 0.5)


def champion_and_challenger(of: Membership) -> tuple[Policy, Policy]:
    champion, challenger = factories.policy(of=of.workspace, name="champ"), factories.policy(of=of.workspace)
    promotions.promote(policy=champion, environment="office", by=of.user, reason="It was first.")
    return champion, challenger


def test_a_higher_share_on_easier_tasks_proves_nothing(researcher: Membership):
    champion, challenger = champion_and_challenger(researcher)
    attempted(champion, {task: [False] for task in tasks(researcher, "L3", 10)})
    attempted(challenger, {task: [True] for task in tasks(researcher, "L1", 10)})
    assert "office: not comparable: different tasks" in page(researcher)
    assert "Against champ, champion of office: not comparable: different tasks." in page(
        researcher, "policies:policy", challenger.pk
    )


def test_a_difference_is_measured_on_the_shared_tasks_alone(researcher: Membership):
    champion, challenger = champion_and_challenger(researcher)
    shared = tasks(researcher, "L1", 10)
    attempted(champion, {task: [False] for task in shared})
    attempted(challenger, {task: [n < 8] for n, task in enumerate([*shared, *tasks(researcher, "L1", 90)])})
    # 8 of 10 differ: center 8 / 12, half 1.96 · √(9 − 64 / 12) / 12 = 0.3128
    assert "office: better by 80 points (35 to 98) on 10 shared tasks" in page(researcher)


def test_a_small_difference_is_not_called_better(researcher: Membership):
    champion, challenger = champion_and_challenger(researcher)
    shared = tasks(researcher, "L1", 4)
    attempted(champion, {task: [False] for task in shared})
    attempted(challenger, {task: [n == 0] for n, task in enumerate(shared)})
    assert "office: no difference shown: 25 points (" in page(researcher)


def test_only_rollouts_of_held_out_tasks_count(researcher: Membership):
    policy = factories.policy(of=researcher.workspace)
    [held_out] = tasks(researcher, "L1", 1)
    attempted(policy, {factories.task(of=researcher.workspace, environment="office"): [True]})
    factories.trajectory(of=held_out, policy=policy, success=True)  # imported
    assert held_out_success(researcher, [policy])[policy.pk] == ([], [])
    assert "not measured" in page(researcher)


def test_a_batchs_page_says_each_level_by_itself(researcher: Membership):
    policy = factories.policy(of=researcher.workspace)
    easy, hard = tasks(researcher, "L1", 3), tasks(researcher, "L3", 3)
    batch = attempted(policy, {task: [True] for task in easy} | {task: [False] for task in hard})
    text = page(researcher, "training:rollouts", batch.pk)
    assert "of L1 succeeded by the environment's check" in text
    assert "of L3 succeeded by the environment's check" in text
    assert "50 %" not in text


def test_nothing_is_learned_of_another_workspace(researcher: Membership):
    stranger = factories.member(Role.RESEARCHER)
    policy = factories.policy(of=researcher.workspace)
    attempted(policy, {task: [True] for task in tasks(researcher, "L1", 3)})
    assert held_out_success(stranger, [policy])[policy.pk].levels == []


@pytest.mark.parametrize("count", [1, 3])
def test_more_policies_need_no_more_queries(researcher: Membership, count: int, django_assert_num_queries):
    champion, _ = champion_and_challenger(researcher)
    shared = tasks(researcher, "L1", 2)
    policies = [champion, *(factories.policy(of=researcher.workspace) for _ in range(count))]
    for policy in policies:
        attempted(policy, {task: [True] for task in shared})
    with django_assert_num_queries(2):
        held_out_success(researcher, policies)
