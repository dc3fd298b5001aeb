"""Assignment of tasks to splits: close to the shares, never changed, and independent of who asks first."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from django.db import connection

from apps.datasets.models import Split, TaskSplit
from apps.datasets.selection.splits import SplitTask, assign, settle
from apps.gateway.models import Path
from contract.task_parts import part_of
from contract.trajectory import Task as Record
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


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("first", ["whole", "part"])
@pytest.mark.django_db
def test_a_sub_agents_task_goes_with_that_of_its_session_whichever_is_frozen_first(split: Split, first: str) -> None:
    workspace = factories.workspace()
    whole, part, other = (factories.task(of=workspace) for _ in range(3))
    session, reply = factories.session(of=workspace), {"role": "assistant", "content": "Done."}
    for number, task in enumerate((whole, part, whole)):  # the third is a branch
        trajectory = factories.trajectory(of=task)
        Path.objects.create(
            session=session, leaf=factories.call(of=session, message=reply), trajectory=trajectory, is_main=number == 0
        )
    only = {each: 100 if each is split else 0 for each in Split}
    rest = {each: 0 if each is split else 50 for each in Split}
    entries = {name: SplitTask(t.pk, "", t.key, False, None) for name, t in (("whole", whole), ("part", part))}
    settle([entries[first]], workspace=workspace, shares=only, seed=0)
    settle(
        [*entries.values(), SplitTask(other.pk, "", other.key, False, None)], workspace=workspace, shares=rest, seed=0
    )
    splits = dict(TaskSplit.objects.values_list("task", "split"))
    assert splits[whole.pk] == splits[part.pk] == split != splits[other.pk]


@pytest.mark.parametrize("split", Split)
@pytest.mark.django_db
def test_an_imported_sub_agents_task_goes_with_that_of_its_run(split: Split) -> None:
    workspace = factories.workspace()
    record = part_of(part_of(Record("t", environment="e"), Record("inner")), Record("innermost"))
    whole, part = (factories.task(of=workspace, environment="e", key=key) for key in ("t", record.key))
    elsewhere = factories.task(of=workspace, environment="other", key="t")
    only = {each: 100 if each is split else 0 for each in Split}
    chosen = settle([SplitTask(part.pk, "e", part.key, False, None)], workspace=workspace, shares=only, seed=0)
    assert chosen == {part.pk: split, whole.pk: split}
    assert not TaskSplit.objects.filter(task=elsewhere).exists()


def test_a_task_of_several_sessions_sub_agents_is_as_far_from_training_as_any_of_them() -> None:
    part, *others = tasks(4)
    settled = [task._replace(split=split) for task, split in zip(others, Split, strict=True)]
    for count, expected in ((1, "train"), (2, "validation"), (3, "test")):
        wholes = {part.id: [task.id for task in others[:count]]}
        assert assign([part, *settled], shares=SHARES, seed=0, wholes=wholes)[part.id] == expected
    of_train = {part.id: [others[0].id]}
    held_out = part._replace(held_out=True)
    assert assign([held_out, *settled], shares=SHARES, seed=0, wholes=of_train)[part.id] == "test"


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
