"""A suspended worker or a long deletion may hold a row for hours; work on all workspaces doesn't wait for it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Model
from django.utils.timezone import now

from apps.annotation.models import Queue
from apps.annotation.queues import settings
from apps.common.ids import new_id
from apps.common.one_at_a_time import one_at_a_time
from apps.common.query_time_limit import periodic_lock_time_limit
from apps.gateway import sessions
from apps.gateway.models import Session
from apps.jobs import lifecycle
from apps.traces.models import Trace
from apps.training import runner_rollouts
from apps.training.launch import RUNS
from apps.training.models import EpisodeBatch, Run
from apps.trajectories.models import RolloutBatch
from tests import factories
from workers import tasks

pytestmark = pytest.mark.django_db(transaction=True)
TIMEOUT = 30.0
"""Seconds that a test may wait for a row before it fails."""


def while_locked(row: Model, act: Callable[[], Any]) -> Any:
    """The result of `act` in a separate connection while another one holds the row."""

    def acting() -> Any:
        try:
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other, transaction.atomic():
        type(row)._default_manager.select_for_update().get(pk=row.pk)
        return other.submit(acting).result(timeout=TIMEOUT)


def abandoned() -> Run:
    run = lifecycle.claim(RUNS, factories.run().pk, worker="there:1")
    assert run is not None
    Run.objects.filter(pk=run.pk).update(leased_until=now() - timedelta(minutes=1))
    return run


def test_a_job_within_a_transaction_of_a_suspended_worker_keeps_none_from_being_recovered():
    held, other = abandoned(), abandoned()
    assert [job.pk for job in while_locked(held, lambda: lifecycle.recover(RUNS))] == [other.pk]
    assert [job.pk for job in lifecycle.recover(RUNS)] == [held.pk]


def test_a_second_delivery_of_such_a_job_is_put_off():
    held = abandoned()
    assert while_locked(held, lambda: lifecycle.claim(RUNS, held.pk, worker="there:2")) is None
    assert lifecycle.claim(RUNS, held.pk, worker="there:2") is not None


def test_a_reminder_of_such_a_job_is_put_off(monkeypatch: pytest.MonkeyPatch):
    enqueued: list[str] = []
    monkeypatch.setattr(lifecycle, "enqueue", lambda _, pk: enqueued.append(pk))
    held, other = factories.run(), factories.run()
    Run.objects.update(leased_until=now() - timedelta(minutes=1))
    while_locked(held, lambda: lifecycle.recover(RUNS))
    assert enqueued == [str(other.pk)]


def test_a_queue_that_is_held_keeps_no_other_from_being_closed(monkeypatch: pytest.MonkeyPatch):
    held, other = (factories.queue(of=factories.workspace(), ends_at=now() - timedelta(hours=1)) for _ in range(2))
    monkeypatch.setattr(tasks, "CHORES", (settings.close_ended,))
    while_locked(held, tasks.run_chores)
    states = dict(Queue.objects.values_list("pk", "state"))
    assert states == {held.pk: Queue.State.OPEN, other.pk: Queue.State.CLOSED}


BY_TURNS = (settings.close_ended, sessions.abandon_idle, runner_rollouts.count_all)


@pytest.mark.parametrize("chore", BY_TURNS)
def test_a_row_that_can_not_be_done_keeps_no_other_workspace_waiting(
    monkeypatch: pytest.MonkeyPatch, chore: Callable[[], None]
):
    done: list[Any] = []

    def do(pk: Any, **_: Any) -> None:
        done.append(pk)
        if len(done) == 1:
            raise ArithmeticError

    for module, name in ((settings, "has_ended"), (sessions, "abandon"), (runner_rollouts, "count")):
        monkeypatch.setattr(module, name, do)
    for _ in range(2):
        home = factories.workspace()
        factories.queue(of=home, ends_at=now() - timedelta(hours=1))
        session = factories.session(of=home)
        Session.objects.filter(pk=session.pk).update(expires_at=now() - timedelta(hours=1))
        batch = RolloutBatch.objects.create(
            workspace=home, policy=session.policy, environment="", config={"played_by": "runners"}
        )
        EpisodeBatch.objects.create(pk=new_id(), rollouts=batch, lease_seconds=60, most_calls=1)
    chore()
    assert len(done) == 2


def elsewhere(act: Callable[[], None]) -> None:
    """Run `act` in a thread with its own connection, like another worker."""

    def acting() -> None:
        try:
            act()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        other.submit(acting).result(timeout=TIMEOUT)


def test_one_worker_at_a_time_reads_the_traces_of_a_workspace():
    one, _ = (
        Trace.objects.create(workspace=factories.workspace(), trace_id="1" * 32, changed_at=now(), due_at=now())
        for _ in range(2)
    )
    with one_at_a_time(f"traces.settle:{one.workspace_id}", seconds=60):
        elsewhere(tasks.settle_traces)
    assert [trace.pk for trace in Trace.objects.due_at(now())] == [one.pk]
    elsewhere(tasks.settle_traces)
    assert not Trace.objects.due_at(now()).exists()


def test_one_worker_at_a_time_does_the_chores(monkeypatch: pytest.MonkeyPatch):
    done: list[int] = []
    monkeypatch.setattr(tasks, "CHORES", (lambda: elsewhere(tasks.run_chores), lambda: done.append(1)))
    tasks.run_chores()
    assert done == [1]


def test_the_limit_ends_with_the_work():
    with periodic_lock_time_limit():
        pass
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)
