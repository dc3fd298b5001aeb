from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, connections, transaction
from django.utils.timezone import now

from apps.accounts.models import AuditEntry
from apps.annotation import queue_work
from apps.annotation.kinds.pair_selection import Pairing
from apps.annotation.models import Item, Queue
from apps.annotation.queues import items, queue_lifecycle
from apps.annotation.queues.items import fill, fill_stalled
from apps.annotation.queues.queue_lifecycle import (
    WrongState,
    close_queue,
    create_queue,
    resume_queue,
    revise_guidelines,
)
from apps.annotation.queues.sources import Selection
from apps.annotation.refusals import NothingToCompare
from apps.common.advisory_locks import number_of
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace():
    return factories.workspace()


@pytest.fixture
def sent(monkeypatch):
    """The tasks that were enqueued."""
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr("apps.annotation.queues.queue_lifecycle.enqueue", lambda *call: calls.append(call))
    monkeypatch.setattr("apps.annotation.queues.items.enqueue", lambda *call: calls.append(call))
    return calls


def runs(workspace, *, tasks: int, per_task: int = 2):
    made = [factories.task(of=workspace) for _ in range(tasks)]
    return [builders.attempt(task, 0, succeeds=n == 0) for task in made for n in range(per_task)]


def new_queue(workspace, **fields):
    arguments = {"selection": Selection(), "pairing": Pairing(), "created_by": None, "name": "Q", **fields}
    return create_queue(workspace=workspace, **arguments)


def test_a_new_queue_counts_its_pairs_and_leaves_the_filling_to_a_worker(workspace, sent):
    runs(workspace, tasks=2, per_task=3)
    queue = new_queue(workspace, overlap=2)
    assert (queue.state, queue.items_expected, queue.item_count) == (Queue.State.FILLING, 6, 0)
    assert sent == [("queues.fill", str(queue.pk))]
    assert fill(queue.pk) == 6
    queue.refresh_from_db()
    assert queue.state == Queue.State.OPEN
    assert list(Item.objects.order_by("position").values_list("position", "overlap")) == [(n, 2) for n in range(6)]
    assert AuditEntry.objects.get().action == "made queue"


def test_imported_runs_that_cannot_be_told_apart_are_not_compared(workspace, sent):
    for answer, seconds in (("Yes.", 1.0), ("Yes.", 2.0), ("No.", 1.0)):
        step = {"context": [], "message": factories.assistant_message(answer), "seconds": seconds}
        factories.imported_run([step], of=workspace, task_key="t")
    queue = new_queue(workspace)
    assert (queue.items_expected, fill(queue.pk)) == (1, 1)
    pair = Item.objects.get()
    assert {run.steps.get().message["content"] for run in (pair.a, pair.b)} == {"Yes.", "No."}


def test_a_killed_filling_goes_on_behind_its_last_batch(workspace, sent, monkeypatch):
    monkeypatch.setattr(items, "TASKS_A_BATCH", 2)
    runs(workspace, tasks=5)
    queue = new_queue(workspace)
    items._fill_batch(queue.pk)
    assert Item.objects.count() == 2
    assert fill(queue.pk) == 5
    assert fill(queue.pk) == 5  # the task is delivered a second time
    assert Item.objects.values("task").distinct().count() == 5


def test_a_task_with_very_many_pairs_is_never_in_memory_as_a_whole(workspace, sent, monkeypatch):
    """600 kB of trajectories of one task make four million pairs, which once took gigabytes and blocked the worker."""
    monkeypatch.setattr(items, "ROWS", 4)
    monkeypatch.setattr(items, "ITEMS_A_BATCH", 10)
    runs(workspace, tasks=3, per_task=5)
    queue = new_queue(workspace)
    added: list[int] = []
    add = items._add
    monkeypatch.setattr(items, "_add", lambda queue, rows: (added.append(len(rows)), add(queue, rows)))
    items._fill_batch(queue.pk)
    assert (added, Item.objects.count()) == ([4, 4, 2], 10)  # all pairs of the first task
    assert fill(queue.pk) == 30
    assert max(added) == 4
    assert list(Item.objects.order_by("position").values_list("position", flat=True)) == list(range(30))


def test_a_filling_that_ends_in_the_middle_of_a_task_goes_on_there(workspace, sent, monkeypatch):
    monkeypatch.setattr(items, "ROWS", 3)
    monkeypatch.setattr(items, "ITEMS_A_BATCH", 6)
    runs(workspace, tasks=2, per_task=5)
    whole, queue = new_queue(workspace), new_queue(workspace)
    items._fill_batch(queue.pk)
    assert Item.objects.count() == 6
    assert fill(queue.pk) == 20
    assert "done" not in Queue.objects.get(pk=queue.pk).selection
    monkeypatch.setattr(items, "ITEMS_A_BATCH", 1000)
    assert fill(whole.pk) == 20
    drawn = [
        list(Item.objects.filter(queue=filled).order_by("position").values_list("a", "b")) for filled in (whole, queue)
    ]
    assert drawn[0] == drawn[1]


def test_more_items_than_a_queue_has_are_refused_before_any_is_made(workspace, sent, monkeypatch):
    monkeypatch.setattr(queue_lifecycle, "MAX_ITEMS", 9)
    runs(workspace, tasks=1, per_task=5)
    with pytest.raises(queue_lifecycle.TooManyItems, match="These are 10 items; a queue has 9 at most"):
        new_queue(workspace)
    assert not Queue.objects.exists()
    assert not sent


def test_a_filling_that_stopped_moving_is_sent_to_a_worker_again(workspace, sent):
    runs(workspace, tasks=1)
    queue = new_queue(workspace)
    sent.clear()
    assert fill_stalled() == 0
    Queue.objects.update(filling_at=now() - timedelta(minutes=2))
    assert fill_stalled() == 1
    assert sent == [("queues.fill", str(queue.pk))]


def test_of_many_stalled_fillings_of_a_workspace_one_is_sent_again(workspace, sent):
    runs(workspace, tasks=1)
    second, first = new_queue(workspace), new_queue(workspace)
    of_other_workspace = factories.workspace()
    runs(of_other_workspace, tasks=1)
    other = new_queue(of_other_workspace)
    sent.clear()
    for minutes, queue in enumerate((second, first, other), start=2):
        Queue.objects.filter(pk=queue.pk).update(filling_at=now() - timedelta(minutes=minutes))
    assert fill_stalled() == 2
    assert set(sent) == {("queues.fill", str(first.pk)), ("queues.fill", str(other.pk))}


def test_the_selection_is_what_was_picked_and_nothing_of_other_workspaces(workspace, sent):
    picked = runs(workspace, tasks=1, per_task=3)[:2]
    foreign = runs(factories.workspace(), tasks=1)
    queue = new_queue(workspace, selection=Selection(ids=[run.pk for run in picked + foreign]))
    fill(queue.pk)
    item = Item.objects.get()
    assert {item.a_id, item.b_id} == {run.pk for run in picked}


def test_what_is_imported_later_does_not_slip_in(workspace, sent):
    runs(workspace, tasks=1)
    queue = new_queue(workspace)
    runs(workspace, tasks=1)
    assert fill(queue.pk) == 1


def test_a_shuffled_queue_has_an_order_of_its_own(workspace, sent):
    runs(workspace, tasks=20)
    orders = []
    for seed in (1, 1, 2):
        queue = new_queue(workspace, order=Queue.Order.RANDOM, pairing=Pairing(seed=seed))
        fill(queue.pk)
        orders.append(list(queue.items.order_by("position").values_list("a_id", flat=True)))
    assert orders[0] == orders[1] != orders[2]


def test_a_selection_without_a_pair_is_refused(workspace, sent):
    runs(workspace, tasks=2, per_task=1)
    with pytest.raises(NothingToCompare):
        new_queue(workspace)
    assert not Queue.objects.exists()


def test_closing_stops_a_filling_and_a_closed_queue_can_be_opened_again(workspace, sent):
    runs(workspace, tasks=3)
    queue = new_queue(workspace)
    close_queue(queue=queue, by=None)
    assert fill(queue.pk) == 0
    with pytest.raises(WrongState):
        close_queue(queue=queue, by=None)
    resume_queue(queue=queue, by=None)
    assert queue.state == Queue.State.OPEN


def test_guidelines_gain_a_version_only_when_their_text_changes(workspace, sent):
    runs(workspace, tasks=1)
    queue = new_queue(workspace, guidelines="Be fair.")
    assert revise_guidelines(queue=queue, text="Be fair.", by=None).version == 1
    assert revise_guidelines(queue=queue, text="Be kind.", by=None).version == 2
    assert list(queue.guidelines.order_by("version").values_list("text", flat=True)) == ["Be fair.", "Be kind."]


@pytest.mark.django_db(transaction=True)
def test_filling_holds_up_nobody_else_in_the_workspace(workspace, sent):
    """Every judgment refers to the workspace, so a lock on it would block all desks for the duration of a batch."""
    runs(workspace, tasks=1)
    queue = new_queue(workspace)

    def fill_it() -> int:
        try:
            return fill(queue.pk)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        connection.cursor().execute("SET CONSTRAINTS ALL IMMEDIATE")  # as they are when a request commits
        AuditEntry.objects.create(
            workspace=workspace, action="something else"
        )  # locks the workspace until the end of this block
        assert threads.submit(fill_it).result(timeout=10) == 1


@pytest.mark.django_db(transaction=True)
def test_many_queues_of_a_workspace_are_filled_one_after_another(workspace, sent):
    """Otherwise they'd occupy all workers, and those of other workspaces would wait."""
    runs(workspace, tasks=2)
    first, second = new_queue(workspace), new_queue(workspace)
    elsewhere = factories.workspace()
    runs(elsewhere, tasks=1)
    other = new_queue(elsewhere)
    sent.clear()

    def fill_in_thread(queue: Queue) -> int:
        try:
            return fill(queue.pk)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as another, transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [number_of(queue_work.lock_of(workspace.pk))])
        assert another.submit(fill_in_thread, second).result(60) == 0
        assert another.submit(fill_in_thread, other).result(60) == 1
    assert sent == []
    assert fill(first.pk) == 2
    assert sent == [("queues.fill", str(second.pk))]
    assert fill(second.pk) == 2


@pytest.mark.django_db(transaction=True)
def test_queues_of_a_person_are_filled_one_after_another_in_however_many_workspaces(workspace, sent):
    """Researchers may create any number of workspaces."""
    person, elsewhere = factories.member(of=workspace).user, factories.workspace()
    for home in (workspace, elsewhere):
        runs(home, tasks=2)
    here, there = new_queue(workspace), new_queue(elsewhere)
    Queue.objects.update(created_by=person)
    sent.clear()

    def fill_in_thread() -> int:
        try:
            return fill(there.pk)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as another, transaction.atomic():
        with connection.cursor() as cursor:
            lock = number_of(queue_work.lock_of_person(person.pk, workspace.pk))
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [lock])
        assert another.submit(fill_in_thread).result(60) == 0
    assert fill(here.pk) == 2
    assert sent == [("queues.fill", str(there.pk))]
    assert fill(there.pk) == 2
