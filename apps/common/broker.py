"""The Celery application for sending tasks to workers. Tasks are sent by name, so no app imports one.

What only workers need (tasks, the periodic schedule, startup) is in `workers.app`.
"""

import logging
import os
from typing import Any, NamedTuple

from celery import Celery
from django.conf import settings
from django.core.cache import cache
from django.db import transaction

logger = logging.getLogger(__name__)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")


def _url() -> str:
    # Celery writes a Unix socket as redis+socket://…?virtual_host=0, redis-py as unix://…?db=0.
    url: str = settings.VALKEY_URL
    if url.startswith("unix://"):
        return url.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=")
    return url


app = Celery("retrace")
app.conf.update(
    broker_url=_url(),
    task_ignore_result=True,  # results are stored in Postgres, where pages read them
    task_default_queue="default",
    # Generation has its own workers, so that it doesn't wait behind a training run; and interactive tasks have priority, even for
    # a worker that consumes both queues. Lower numbers go first; queues with messages of equal priority alternate.
    task_routes={
        # Calls to user-specified servers have their own workers, too: some hang, and would block imports, freezing, and periodic tasks.
        "served_continuations.*": {"queue": "remote", "priority": 0},
        "webhooks.deliver": {"queue": "remote", "priority": 3},
        "publishing.*": {"queue": "remote", "priority": 3},
        "judging.*": {"queue": "remote", "priority": 6},
        "continuations.*": {"queue": "generate", "priority": 0},
        "rollouts.*": {"queue": "generate", "priority": 3},
        "scoring.*": {"queue": "generate", "priority": 3},
        "training.*": {"queue": "train", "priority": 3},
    },
    # A task not acknowledged within this time is given to another worker. Long runs renew a lease in Postgres and
    # refuse the second delivery, so this only bounds how long a lost message is delayed.
    broker_transport_options={
        "visibility_timeout": 3600,
        "global_keyprefix": "celery:",
        # Seconds; longer than a worker ever waits for the next message. Senders must not hang when Valkey does.
        "socket_connect_timeout": 5,
        "socket_timeout": 30,
    },
    timezone="UTC",
)


def enqueue(task: str, *args: Any) -> None:
    """Send a task once the current transaction commits; immediately outside a transaction.

    If the broker is down, the failure is only logged: the data is committed, and a periodic task resends messages for waiting work.
    """
    transaction.on_commit(lambda: app.send_task(task, args=args), robust=True)


def enqueue_seldom(task: str, *args: Any, seconds: int) -> None:
    """Like `enqueue`, but at most twice in this time: at once and, if it's requested again, at the end. For what may be requested hundreds of times a second."""

    def send() -> None:
        name = f"{task}:{args}"
        if cache.add(f"sent:{name}", True, seconds):
            app.send_task(task, args=args)
        elif cache.add(f"to-send:{name}", True, seconds):
            app.send_task(task, args=args, countdown=seconds)

    transaction.on_commit(send, robust=True)


def enqueue_at_once(task: str, *args: Any, seconds: int) -> None:
    """Send a task immediately; no worker begins it after `seconds`. It must not depend on the current transaction, which may wait for its result."""
    try:
        app.send_task(task, args=args, expires=seconds)
    except Exception:
        logger.exception("%s could not be sent", task)


class Route(NamedTuple):
    """Queue and priority of a task."""

    worker_queue: str
    priority: int
    """Priority within the worker queue; lower numbers go first."""


def route_of(task: str) -> Route:
    route = app.amqp.router.route({}, task)
    return Route(route["queue"].name, route.get("priority", 0))
