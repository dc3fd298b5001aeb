"""Priorities of a worker that consumes several worker queues."""

from typing import Any

import pytest
from celery import Celery
from django.core.cache import cache

from apps.common.broker import app, enqueue_seldom, route_of

TASKS = ("training.run", "rollouts.run", "scoring.run_slice", "continuations.run")


@pytest.fixture
def alone() -> Celery:
    """The real broker, isolated: workers of this session would otherwise take the tasks."""
    copy = Celery("alone", set_as_current=False)
    copy.conf.update(broker_url=app.conf.broker_url, task_routes=app.conf.task_routes)
    options = {**app.conf.broker_transport_options, "global_keyprefix": "alone:"}
    copy.conf.update(broker_transport_options=options, task_default_queue="default")
    return copy


def taken(celery: Celery, *queues: str, count: int) -> list[str]:
    """The tasks in the order in which a worker of these queues receives them."""
    names: list[str] = []

    def note(_: object, message: Any) -> None:
        names.append(message.headers["task"])
        message.ack()

    with celery.connection_for_read() as connection:
        channel = connection.channel()
        channel.basic_qos(0, 1, False)  # one at a time, as workers take them
        wanted = [celery.amqp.queues[queue](channel) for queue in queues]
        with connection.Consumer(wanted, callbacks=[note], channel=channel):
            while len(names) < count:
                connection.drain_events(timeout=10)
    return names


def test_people_go_before_batches_and_many_batches_leave_turns_to_training(alone: Celery):
    for task in [*TASKS, "rollouts.run", "rollouts.run", "training.run"]:
        alone.send_task(task, args=["1"])
    first, *others = taken(alone, "train", "generate", count=7)
    assert first == "continuations.run"
    assert [task for task in others if task != "training.run"] == [
        "rollouts.run",
        "scoring.run_slice",
        *["rollouts.run"] * 2,
    ]
    assert "training.run" in others[:2]
    assert "training.run" in others[2:4]


@pytest.mark.parametrize(
    ("task", "worker_queue"),
    [
        ("training.run", "train"),
        ("rollouts.run", "generate"),
        ("continuations.run", "generate"),
        ("served_continuations.run", "remote"),
        ("webhooks.deliver", "remote"),
        ("webhooks.delete_old", "default"),
        ("judging.run_slice", "remote"),
        ("publishing.publish", "remote"),
        ("publishing.restore_adapters", "remote"),
        ("leases.expire", "default"),
        ("jobs.recover", "default"),
        ("imports.run", "default"),
    ],
)
def test_each_task_waits_in_one_worker_queue(task: str, worker_queue: str):
    assert route_of(task).worker_queue == worker_queue


@pytest.mark.django_db
def test_what_is_requested_many_times_at_once_is_sent_twice(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
):
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(app, "send_task", lambda task, args, countdown=0: sent.append((task, args, countdown)))
    cache.clear()
    with django_capture_on_commit_callbacks(execute=True):
        for batch in ("a", "a", "b", "a"):
            enqueue_seldom("runners.count", batch, seconds=30)
        assert not sent
    assert sent == [("runners.count", ("a",), 0), ("runners.count", ("a",), 30), ("runners.count", ("b",), 0)]
