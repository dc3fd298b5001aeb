"""Assignment of tasks to splits: close to the shares, never changed, and independent of who asks first."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from django.db import connection

from apps.datasets.models import Split, TaskSplit
from apps.datasets.selection.splits import SplitTask, assign, settle
from tests import factories

SHARES = {Split.TRAIN: 80, Split.VALIDATION: 10, Split.TEST: 10}


def tasks(count: int, *, held_out: bool = False, first: int = 0) -> list[SplitTask]:
    return [SplitTask(UUID(int=n), "env", f"task-{n}", held_out, None) for n in range(first, first + count)]


def sizes(chosen: dict[UUID, Split]) -> tuple[int, ...]:
    return tuple(list(chosen.values()).count(split) for split in Split)


@pytest.mark.parametrize(
    ("count", "expected"), [(1, (1, 0, 0)), (10, (8, 1, 1)), (100, (80, 10, 10)), (1000, (800, 100, 100))]
)
def test_shares_are_met_with_few_tasks_too(count: int, expected: tuple[int, ...]) -> None:
    assert sizes(assign(tasks(count), shares=SHARES, seed=0)) == expected


def test_held_out_tasks_go_where_nobody_trains() -> None:
    assert sizes(assign(tasks(6, held_out=True), shares=SHARES, seed=0)) == (0, 3, 3)
    all_train = {Split.TRAIN: 100, Split.VALIDATION: 0, Split.TEST: 0}
    assert sizes(assign(tasks(2, held_out=True), shares=all_train, seed=0)) == (0, 0, 2)


def test_a_split_is_kept_whatever_the_shares() -> None:
    settled = [task._replace(split="test") for task in tasks(5)]
    assert sizes(assign(settled, shares=SHARES, seed=0)) == (0, 0, 5)


def test_the_seed_decides_and_the_order_does_not() -> None:
    split_tasks = tasks(40)
    assert assign(split_tasks, shares=SHARES, seed=3) == assign(reversed(split_tasks), shares=SHARES, seed=3)
    assert assign(split_tasks, shares=SHARES, seed=3) != assign(split_tasks, shares=SHARES, seed=4)


@pytest.mark.django_db(transaction=True)
def test_freezes_at_once_agree() -> None:
    """Eight concurrent freezes, each with its own shares and seed, over the same 30 tasks: all get the same assignment."""
    workspace = factories.workspace()
    split_tasks = [
        SplitTask(made.pk, made.environment, made.key, False, None)
        for made in (factories.task(of=workspace) for _ in range(30))
    ]

    def one(seed: int) -> dict[UUID, Split]:
        shares = {Split.TRAIN: 10 * seed, Split.VALIDATION: 100 - 10 * seed, Split.TEST: 0}
        try:
            return settle(split_tasks, workspace=workspace, shares=shares, seed=seed)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))

    assert all(answer == answers[0] for answer in answers)
    assert dict(TaskSplit.objects.values_list("task", "split")) == answers[0]
