"""Which trajectories of a task are compared with each other. The preview and the filling of a queue share this code.

Trajectories that are equal in every trait that the pairing uses form a group. Pairs are numbered group by group, so that
they can be counted, and k of them drawn, without enumerating all.

Trajectories with the same course are indistinguishable: nobody could prefer one of them, and comparing one with a third trajectory
compares the other, too. So in each group the oldest trajectory of a course represents it, and no pair has the same course twice.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import accumulate, groupby, islice
from math import isqrt
from random import Random
from typing import Any, NamedTuple, Self
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import BigIntegerField, Count, F, Func, QuerySet, TextField, Value
from django.db.models.functions import Cast, Coalesce

from apps.trajectories.models import Trajectory

COURSE = Coalesce(
    F("course"),
    Func(Cast("pk", TextField()), Value(0), function="hashtextextended", output_field=BigIntegerField()),
)
"""A trajectory without a recorded course counts as unique."""


class Traits(NamedTuple):
    """The traits of a trajectory that a pairing may use."""

    policy: UUID | None
    success: bool | None
    reward: float | None


class Candidate(NamedTuple):
    id: UUID
    traits: Traits
    course: int
    """Equal for indistinguishable trajectories."""


class Pair(NamedTuple):
    """Two trajectories of one task; their order has no meaning."""

    task: UUID
    a: UUID
    b: UUID

    def shuffled(self, seed: int) -> int:
        """A pseudorandom position."""
        return shuffled_place(f"{seed} {self.a} {self.b}")


def shuffled_place(key: str) -> int:
    """A pseudorandom position: a hash, so that it doesn't depend on the queue's other items or their order of arrival.

    63 bits: among a million items a collision has a probability below one in ten million, and a unique constraint would catch it.
    """
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") >> 1


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """How pairs are drawn from the trajectories of each task."""

    per_task: int | None = None
    """Maximum number of pairs per task, drawn at random; None takes all."""
    different_outcomes: bool = False
    """Only pairs in which one trajectory did better: success differs or, if it isn't recorded, reward does."""
    different_policies: bool = False
    """Only pairs of two known policies."""
    seed: int = 0

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def traits(self) -> tuple[str, ...]:
        """The columns of a trajectory that this pairing uses."""
        policy = ("policy_id",) if self.different_policies else ()
        return policy + (("success", "reward") if self.different_outcomes else ())

    def read(self, values: Sequence[Any]) -> Traits:
        """The traits from those columns' values."""
        values_by_trait = dict(zip(self.traits, values, strict=True))
        return Traits(values_by_trait.get("policy_id"), values_by_trait.get("success"), values_by_trait.get("reward"))

    def allows(self, x: Traits, y: Traits) -> bool:
        if self.different_policies and (x.policy is None or y.policy is None or x.policy == y.policy):
            return False
        return not self.different_outcomes or _ended_differently(x, y)

    @property
    def of_single_trajectories(self) -> str:
        """Description for queues of single trajectories."""
        return {None: "all trajectories of a task", 1: "one trajectory per task"}.get(
            self.per_task, f"{self.per_task} trajectories per task"
        )

    def __str__(self) -> str:
        count = {None: "all pairs of a task", 1: "one pair per task"}.get(
            self.per_task, f"{self.per_task} pairs per task"
        )
        rules = [
            rule
            for rule, holds in (
                ("different outcomes", self.different_outcomes),
                ("different policies", self.different_policies),
            )
            if holds
        ]
        return ", ".join([count, *rules])


def _ended_differently(x: Traits, y: Traits) -> bool:
    if x.success is not None and y.success is not None:
        return x.success != y.success
    return x.reward is not None and y.reward is not None and x.reward != y.reward


def draw(pairing: Pairing, task: UUID, candidates: Iterable[Candidate]) -> Iterator[Pair]:
    """The pairs of one task, deterministic for the same trajectories. `candidates` are ordered oldest first."""
    groups = _groups(pairing, candidates)
    members = {traits: list(courses.values()) for traits, courses in groups.items()}
    blocks = list(_blocks(pairing, {traits: courses.keys() for traits, courses in groups.items()}))
    ends = list(accumulate(block.size for block in blocks))
    total = ends[-1] if ends else 0
    alike = sum(block.alike for block in blocks)

    def pair(number: int) -> tuple[Candidate, Candidate]:
        block = blocks[index := bisect_right(ends, number)]
        first, second = block.pair_at(number - (ends[index] - block.size))
        return members[block.x][first], members[block.y][second]

    chosen: Iterable[int] = range(total)
    if pairing.per_task is not None and pairing.per_task < total - alike:
        # sample() takes a range without listing it. Even if all pairs of the same course are drawn, enough others remain.
        numbers = Random(f"{pairing.seed} {task}").sample(range(total), pairing.per_task + alike)
        chosen = sorted(islice((number for number in numbers if _differ(*pair(number))), pairing.per_task))
    for number in chosen:
        first, second = pair(number)
        if _differ(first, second):
            yield Pair(task, first.id, second.id)


def _differ(one: Candidate, other: Candidate) -> bool:
    return one.course != other.course


Courses = Set[int]


class _Block(NamedTuple):
    """All pairs between two groups, or within one."""

    x: Traits
    y: Traits
    sizes: tuple[int, int]
    alike: int
    """How many of its pairs have the same course."""

    @property
    def size(self) -> int:
        n, m = self.sizes
        return n * (n - 1) // 2 if self.x == self.y else n * m

    def pair_at(self, number: int) -> tuple[int, int]:
        if self.x != self.y:
            return divmod(number, self.sizes[1])
        second = (
            1 + isqrt(1 + 8 * number)
        ) // 2  # the pairs (i, j), i < j, ordered by j: j(j−1)/2 pairs precede those of j
        return number - second * (second - 1) // 2, second


def _groups(pairing: Pairing, candidates: Iterable[Candidate]) -> dict[Traits, dict[int, Candidate]]:
    """The oldest trajectory of each course, by group."""
    groups: dict[Traits, dict[int, Candidate]] = defaultdict(dict)
    for candidate in candidates:
        groups[_seen(pairing, candidate.traits)].setdefault(candidate.course, candidate)
    return groups


def _seen(pairing: Pairing, traits: Traits) -> Traits:
    """The traits that this pairing uses; the others are blanked, so that they don't split groups."""
    return Traits(
        policy=traits.policy if pairing.different_policies else None,
        success=traits.success if pairing.different_outcomes else None,
        reward=traits.reward if pairing.different_outcomes else None,
    )


def _blocks(pairing: Pairing, groups: Mapping[Traits, Courses]) -> Iterator[_Block]:
    traits: Sequence[Traits] = list(groups)
    for i, x in enumerate(traits):
        for y in traits[i:]:
            if pairing.allows(x, y):
                alike = 0 if x == y else len(groups[x] & groups[y])
                yield _Block(x, y, (len(groups[x]), len(groups[y])), alike)


ALIKE = "identical to another trajectory of its task"


@dataclass
class Preview:
    """The number of items a pairing yields on a selection, and why some trajectories have no pair."""

    tasks: int = 0
    runs: int = 0
    items: int = 0
    """Number of pairs, or of trajectories judged individually."""
    paired_tasks: int = 0
    paired_runs: int = 0
    unpaired: Counter[str] = field(default_factory=Counter)
    """Unpaired trajectories by reason."""

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """Why trajectories have no pair, most frequent reason first."""
        return self.unpaired.most_common()


class Group(NamedTuple):
    """Trajectories of a task with equal traits."""

    runs: int
    courses: Courses


def preview_of(pairing: Pairing, trajectories: QuerySet[Trajectory]) -> Preview:
    """Counted by the database, without reading steps."""
    rows = trajectories.order_by("task_id").values_list("task_id", *pairing.traits)
    counted = rows.annotate(count=Count("pk"), courses=ArrayAgg(COURSE, distinct=True)).iterator(chunk_size=10_000)
    tasks = (
        {pairing.read(traits): Group(count, frozenset(courses)) for _, *traits, count, courses in task}
        for _, task in groupby(counted, key=lambda row: row[0])
    )
    return preview(pairing, tasks)


def preview(pairing: Pairing, tasks: Iterable[dict[Traits, Group]]) -> Preview:
    """Count over tasks, each given as its groups."""
    result = Preview()
    for groups in tasks:
        result.tasks += 1
        total = sum(group.runs for group in groups.values())
        result.runs += total
        all_blocks = _blocks(pairing, {traits: group.courses for traits, group in groups.items()})
        blocks = [block for block in all_blocks if block.size > block.alike]
        pairs = sum(block.size - block.alike for block in blocks)
        result.items += pairs if pairing.per_task is None else min(pairs, pairing.per_task)
        result.paired_tasks += bool(pairs)
        paired = {traits for block in blocks for traits in (block.x, block.y)}
        for traits, group in groups.items():
            if traits in paired:
                result.paired_runs += len(group.courses)
                result.unpaired[ALIKE] += group.runs - len(group.courses)
            else:
                result.unpaired[_unpaired_reason(pairing, traits, groups, total)] += group.runs
    result.unpaired = +result.unpaired
    return result


def _unpaired_reason(pairing: Pairing, traits: Traits, groups: Mapping[Traits, Group], total: int) -> str:
    if total == 1:
        return "the only trajectory of its task in this selection"
    if any(pairing.allows(traits, other) for other in groups):
        return ALIKE
    if pairing.different_policies and traits.policy is None:
        return "no policy recorded"
    if pairing.different_outcomes and traits.success is None and traits.reward is None:
        return "no outcome recorded"
    other_traits = [other for other in groups if other != traits]
    if pairing.different_policies and not any(other.policy not in {None, traits.policy} for other in other_traits):
        return "no trajectory of its task by another policy"
    if pairing.different_outcomes and not any(_ended_differently(traits, other) for other in other_traits):
        return "no trajectory of its task ended differently"
    return "no trajectory of its task differs in both policy and outcome"
