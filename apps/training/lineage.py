"""Lineage: which runs and policies descend from a version's rows, from a base policy, or from a policy used as a reward.

The database walks both directions recursively, so the number of queries doesn't depend on the length of a chain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import Count, Q, QuerySet

from apps.accounts.models import Membership
from apps.annotation.kinds import KINDS
from apps.annotation.models import Item, Judgment
from apps.datasets.models import Split, Version, VersionJudgment, VersionPreference
from apps.policies.models import Policy
from apps.training.models import Run, RunReward

MAX_LINES = 200
READ = MAX_LINES + 1
"""Of each kind of entry: one more tells that there are more."""

# UNION lets each policy in once, so the walks end even for a cycle. They go by generation, so the nearest policies come first.
PARENTS = """
    WITH RECURSIVE above (policy) AS (
        SELECT root FROM unnest(%s::uuid[]) AS root
        UNION
        SELECT parent.policy FROM above CROSS JOIN LATERAL (
            SELECT base_id AS policy FROM policies_policy WHERE id = above.policy
            UNION SELECT reward.policy_id FROM training_run AS run JOIN training_runreward AS reward ON reward.run_id = run.id
            WHERE run.result_id = above.policy
        ) AS parent WHERE parent.policy IS NOT NULL
    ) SELECT policy FROM above LIMIT %s
"""
CHILDREN = """
    WITH RECURSIVE below (policy) AS (
        SELECT root FROM unnest(%s::uuid[]) AS root
        UNION
        SELECT child.policy FROM below CROSS JOIN LATERAL (
            SELECT id AS policy FROM policies_policy WHERE base_id = below.policy
            UNION SELECT run.result_id FROM training_runreward AS reward JOIN training_run AS run ON run.id = reward.run_id
            WHERE reward.policy_id = below.policy
        ) AS child WHERE child.policy IS NOT NULL
    ) SELECT policy FROM below LIMIT %s
"""


T = TypeVar("T")


class Lines(list[T]):
    """The first MAX_LINES entries."""

    def __init__(self, entries: Iterable[T]) -> None:
        read = list(islice(entries, READ))
        super().__init__(read[:MAX_LINES])
        self.has_more = len(read) > MAX_LINES


@dataclass(frozen=True)
class Origin:
    """A policy that another one descends from, the run that made it, and the rows that run was trained on."""

    policy: Policy
    depth: int
    reward: RunReward | None = None
    """The reward term that it was in the run above; None if that run started from it."""
    judgments: int = 0
    is_repeated: bool = False
    """Already listed further up, with everything below it."""

    @property
    def run(self) -> Run | None:
        return getattr(self.policy, "made_by", None)

    @property
    def version(self) -> Version | None:
        return self.run.version if self.run else None


@dataclass(frozen=True)
class Learner:
    """A run, and the policy it made if it has finished. A policy whose training wasn't recorded has no run."""

    depth: int
    run: Run | None
    policy: Policy | None
    reward: RunReward | None = None
    """The reward term through which it was trained; None if it was trained on rows or started from the entry above."""
    version: Version | None = None
    """The rows it was trained on; None if it descends from the entry above."""
    is_repeated: bool = False
    """Already listed further up, with everything below it."""


def origins_of(policy: Policy) -> Lines[Origin]:
    """The policy itself and, indented below each, its base and the policies that rewarded it."""
    return _origins([(policy, None)])


def origins_of_run(run: Run) -> Lines[Origin]:
    """The ancestors of a run, which may not have made a policy yet: its base, then its rewards."""
    rewards = run.rewards.select_related("policy").order_by("pk")
    base: list[tuple[Policy, RunReward | None]] = [(run.base, None)] if run.base else []
    return _origins([*base, *((reward.policy, reward) for reward in rewards)])


def _origins(roots: Sequence[tuple[Policy, RunReward | None]]) -> Lines[Origin]:
    if not roots:
        return Lines([])
    ids = _policies_reached(PARENTS, [policy.pk for policy, _ in roots])
    policies = {policy.pk: policy for policy in _with_origin().filter(pk__in=ids)}
    runs = [run for policy in policies.values() if (run := getattr(policy, "made_by", None))]
    rewards = defaultdict(list)
    for reward in RunReward.objects.filter(run__in=[run.pk for run in runs]).order_by("pk"):
        rewards[reward.run_id].append(reward)
    judgments = judgments_in({run.version_id for run in runs if run.version_id})
    shown: set[UUID] = set()

    def lines(policy_id: UUID | None, reward: RunReward | None, depth: int) -> Iterator[Origin]:
        policy = policies.get(policy_id) if policy_id else None
        if policy is None:
            return
        run = getattr(policy, "made_by", None)
        count = judgments[run.version_id] if run and run.version_id else 0
        line = Origin(policy, depth, reward, count, policy.pk in shown)
        yield line
        if line.is_repeated:
            return
        shown.add(policy.pk)
        yield from lines(policy.base_id, None, depth + 1)
        for below in rewards[run.pk] if run else ():
            yield from lines(below.policy_id, below, depth + 1)

    return Lines(line for policy, reward in roots for line in lines(policy.pk, reward, 0))


def learners_from(policy: Policy) -> Lines[Learner]:
    """Every run that started from the policy or was rewarded by it, and recursively the runs that descend from their policies."""
    return _learners([], [policy.pk])


def learners_from_versions(versions: Collection[UUID]) -> Lines[Learner]:
    """Every run trained on the versions, and recursively the runs that descend from their policies."""
    if not versions:
        return Lines([])
    return _learners(list(_runs().filter(version__in=versions).order_by("pk")[:READ]), [])


def _learners(first: Sequence[Run], roots: Sequence[UUID]) -> Lines[Learner]:
    ids = _policies_reached(CHILDREN, [*roots, *(run.result_id for run in first if run.result_id)])
    by_base, by_reward = defaultdict(list), defaultdict(list)
    unmade = defaultdict(list)
    if ids:
        for run in _runs().filter(base__in=ids).order_by("pk")[:READ]:
            by_base[run.base_id].append(run)
        for reward in _rewards().filter(policy__in=ids).order_by("pk")[:READ]:
            by_reward[reward.policy_id].append(reward)
        for policy in Policy.objects.filter(base__in=ids, made_by=None).order_by("pk")[:READ]:
            unmade[policy.base_id].append(policy)
    shown: set[UUID] = set()

    def lines(line: Learner) -> Iterator[Learner]:
        subject = line.run or line.policy
        if subject is None:
            return
        line = replace(line, is_repeated=subject.pk in shown)
        yield line
        if line.is_repeated:
            return
        shown.add(subject.pk)
        if line.policy:
            yield from below(line.policy.pk, line.depth + 1)

    def below(policy_id: UUID, depth: int) -> Iterator[Learner]:
        for run in by_base[policy_id]:
            yield from lines(Learner(depth, run, run.result))
        for reward in by_reward[policy_id]:
            yield from lines(Learner(depth, reward.run, reward.run.result, reward))
        for policy in unmade[policy_id]:
            yield from lines(Learner(depth, None, policy))

    of_versions = (lines(Learner(0, run, run.result, version=run.version)) for run in first)
    of_policies = (below(root, 0) for root in roots)
    return Lines(line for part in (*of_versions, *of_policies) for line in part)


def _policies_reached(query: str, roots: Iterable[UUID]) -> list[UUID]:
    root_ids = list(roots)
    if not root_ids:
        return []
    with connection.cursor() as cursor:
        cursor.execute(query, [root_ids, READ])
        return [policy for (policy,) in cursor.fetchall()]


def _with_origin() -> QuerySet[Policy]:
    return Policy.objects.select_related("made_by__version__dataset").defer(
        *("report", "made_by__config", "made_by__failure", "made_by__report"),
        *("made_by__version__card", "made_by__version__recipe", "made_by__version__files"),
    )


def _runs() -> QuerySet[Run]:
    return Run.objects.select_related("result", "version__dataset").defer(
        *("config", "failure", "report", "result__report"), *("version__card", "version__recipe", "version__files")
    )


def _rewards() -> QuerySet[RunReward]:
    return RunReward.objects.select_related("run__result").defer(
        *("run__config", "run__failure", "run__report", "run__result__report")
    )


def judgments_in(versions: Collection[UUID]) -> Counter[UUID]:
    """The number of judgments behind the training rows of each version."""
    counted: Counter[UUID] = Counter()
    if versions:
        pairs = VersionPreference.objects.filter(version__in=versions, split=Split.TRAIN).values_list("version")
        singles = VersionJudgment.objects.filter(version__in=versions, split=Split.TRAIN).values_list("version")
        counted.update(dict(pairs.annotate(Count("preference"))))
        judgments = Count("inspection", distinct=True) + Count("rating", distinct=True)
        counted.update(dict(singles.annotate(judgments=judgments)))
    return counted


class Use(NamedTuple):
    """The versions whose rows hold a judgment, and what was trained on it."""

    versions: Lines[Version]
    learners: Lines[Learner]
    """None unless these are training rows."""
    split: str = ""
    """The split of these rows, which is that of their task in every version."""


def use_of(*, judgment: UUID | None = None, item: int | None = None, trajectory: UUID | None = None) -> Use:
    """How one judgment, an item's judgments, or a trajectory's judgments were used."""
    if judgment:
        pair, single = Q(preference=judgment), Q(inspection=judgment) | Q(rating=judgment)
    else:
        items = Item.objects.filter(Q(pk=item) if item else Q(a=trajectory) | Q(b=trajectory))
        pair, single = Q(preference__item__in=items), Q(inspection__item__in=items) | Q(rating__item__in=items)
    pairs, singles = VersionPreference.objects.filter(pair), VersionJudgment.objects.filter(single)
    used = Q(pk__in=pairs.values("version")) | Q(pk__in=singles.values("version"))
    light = Version.objects.select_related("dataset").defer("card", "recipe", "files")
    versions = Lines(light.filter(used).order_by("pk")[:READ])
    split = next((split for rows in (pairs, singles) for split in rows.values_list("split", flat=True)[:1]), "")
    learners = (
        learners_from_versions([version.pk for version in versions]) if split == Split.TRAIN else Lines[Learner]([])
    )
    return Use(versions, learners, split)


def judgment_for(member: Membership, judgment_id: UUID) -> Judgment | None:
    """The judgment, of any kind, with its item and queue; None if the member may not see it."""
    for kind in KINDS.values():
        judgments = kind.model.objects.visible_to(member).filter(pk=judgment_id)
        judgment: Judgment | None = judgments.select_related("annotator", "queue", "item__task").first()
        if judgment:
            return judgment
    return None
