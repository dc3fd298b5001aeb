"""Success of policies on held-out tasks, without pooling incomparable results: each level separately, and two policies on the tasks that both attempted.

A success rate over whichever tasks a policy happened to get reflects the tasks as much as the policy. Attempts at one task are averaged first: the
task is the unit of analysis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple
from uuid import UUID

from django.db.models import Avg, FloatField, IntegerField, QuerySet
from django.db.models.functions import Cast

from apps.accounts.models import Membership
from apps.common.proportions import paired, wilson
from apps.policies.models import Policy, Promotion


class OnTask(NamedTuple):
    """A policy on one held-out task."""

    environment: str
    level: str
    share: float
    """The success rate of its attempts."""


class AtLevel(NamedTuple):
    """A policy on the held-out tasks of one level, with the 95% interval of its success."""

    environment: str
    level: str
    tasks: int
    value: float
    low: float
    high: float


class AgainstChampion(NamedTuple):
    """A policy's success minus the champion's, in percentage points, over the tasks that both attempted."""

    environment: str
    champion: str
    tasks: int
    difference: float
    low: float
    high: float

    @property
    def text(self) -> str:
        if not self.tasks:
            return "not comparable: different tasks"
        on = f"on {self.tasks} shared task{'' if self.tasks == 1 else 's'}"
        interval = f"({_points(self.low)} to {_points(self.high)})"
        if self.low <= 0 <= self.high:
            return f"no difference shown: {_points(self.difference)} points {interval} {on}"
        return f"{'better' if self.low > 0 else 'worse'} by {_points(abs(self.difference))} points {interval} {on}"


class HeldOutSuccess(NamedTuple):
    """What the list and the page of a policy show."""

    levels: list[AtLevel]
    against: list[AgainstChampion]


def held_out_success(member: Membership, policies: Collection[Policy]) -> dict[UUID, HeldOutSuccess]:
    """The success of each policy; two queries."""
    current = Promotion.objects.visible_to(member).current().select_related("policy")
    champions = {promotion.environment: promotion.policy for promotion in current}
    policy_ids = {policy.pk for policy in (*policies, *champions.values())}
    results = _by_task(Policy.objects.visible_to(member).filter(pk__in=policy_ids))
    return {
        policy.pk: HeldOutSuccess(
            levels_of(results[policy.pk].values()),
            [
                _against(environment, champion, results[policy.pk], results[champion.pk])
                for environment, champion in sorted(champions.items())
                if champion.pk != policy.pk
                and any(result.environment == environment for result in results[policy.pk].values())
            ],
        )
        for policy in policies
    }


def levels_of_policy(policy: Policy) -> list[AtLevel]:
    """A policy's success by level; one query."""
    return levels_of(_by_task(Policy.objects.filter(pk=policy.pk))[policy.pk].values())


def levels_of(attempted: Iterable[OnTask]) -> list[AtLevel]:
    """Success by level, each over its own tasks."""
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    for result in attempted:
        shares[result.environment, result.level].append(result.share)
    return [
        AtLevel(environment, level, len(means), sum(means) / len(means), *wilson(sum(means), len(means)))
        for (environment, level), means in sorted(shares.items())
    ]


def _against(
    environment: str, champion: Policy, results: dict[UUID, OnTask], champion_results: dict[UUID, OnTask]
) -> AgainstChampion:
    shared = [
        task for task, result in results.items() if task in champion_results and result.environment == environment
    ]
    differences = [results[task].share - champion_results[task].share for task in shared]
    if not differences:
        return AgainstChampion(environment, champion.name, 0, 0.0, -1.0, 1.0)
    mean = sum(differences) / len(differences)
    return AgainstChampion(environment, champion.name, len(shared), mean, *paired(differences))


def _by_task(policies: QuerySet[Policy]) -> dict[UUID, dict[UUID, OnTask]]:
    """Each policy's results by task. Trajectories are reached through relations, since their app depends on this one."""
    attempts = policies.filter(
        trajectories__rollout_batch__isnull=False,
        trajectories__success__isnull=False,
        trajectories__task__held_out=True,
    )
    task = "trajectories__task"
    share = Avg(Cast("trajectories__success", IntegerField()), output_field=FloatField())
    rows = attempts.values_list("pk", f"{task}_id", f"{task}__environment", f"{task}__difficulty").annotate(share=share)
    results: dict[UUID, dict[UUID, OnTask]] = defaultdict(dict)
    for policy, task_id, environment, level, mean in rows.order_by():
        results[policy][task_id] = OnTask(environment, level, mean)
    return results


def _points(difference: float) -> str:
    return f"{100 * difference:.0f}".replace("-0", "0").replace("-", "−")
