"""The way to the workers: the Celery application as everybody sees it who sends tasks. Tasks are sent by name, so no app imports one.

What only workers need of it (their tasks, the clock, how they start) is in `workers.app`.
"""

import logging
import os
from typing import Any, NamedTuple

from celery import Celery
from django.conf import settings
from django.db import transaction

logger = logging.getLogger(__name__)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")


def _url() -> str:
    # Celery spells a unix socket redis+socket://…?virtual_host=0 where redis-py says unix://…?db=0.
    url: str = settings.VALKEY_URL
    if url.startswith("unix://"):
        return url.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=")
    return url


app = Celery("retrace")
app.conf.update(
    broker_url=_url(),
    task_ignore_result=True,  # outcomes live in Postgres, where pages read them
    task_default_queue="default",
    # Generating has workers of its own, so that nobody waits for some tokens behind a training run; and what a person at the desk
    # waits for is taken first, also by a worker that takes from both. The lower number goes first.
    task_routes={
        # What waits for servers that people name has workers of its own, too: some hang, and would hold up imports, freezing and the clock.
        "served_continuations.*": {"queue": "remote", "priority": 0},
        "webhooks.deliver": {"queue": "remote", "priority": 3},
        "publishing.*": {"queue": "remote", "priority": 3},
        "judging.*": {"queue": "remote", "priority": 6},
        "continuations.*": {"queue": "generate", "priority": 0},
        "rollouts.*": {"queue": "generate", "priority": 3},
        "scoring.*": {"queue": "generate", "priority": 3},
        "training.*": {"queue": "train", "priority": 6},
    },
    # A task not acknowledged within this time is given to another worker. Long runs renew a lease in Postgres and
    # refuse the second delivery, so this only bounds how long a lost message stays lost.
    broker_transport_options={
        "visibility_timeout": 3600,
        "global_keyprefix": "celery:",
        # Seconds; more than a worker ever waits for the next message. Whoever sends one must not hang with Valkey.
        "socket_connect_timeout": 5,
        "socket_timeout": 30,
    },
    timezone="UTC",
)


def enqueue(task: str, *args: Any) -> None:
    """Send a task once the current transaction commits; at once where there is none.

    Where the broker is away, that is logged and nothing else: what is committed holds, and the clock tells the workers of all that waits.
    """
    transaction.on_commit(lambda: app.send_task(task, args=args), robust=True)


def enqueue_at_once(task: str, *args: Any) -> None:
    """Send a task that asks for nothing that the current transaction writes: its answer may be waited for within it."""
    try:
        app.send_task(task, args=args)
    except Exception:
        logger.exception("%s could not be sent", task)


class Place(NamedTuple):
    """Where a task waits."""

    worker_queue: str
    priority: int
    """Within the worker queue; the lower number goes first."""


def place_of(task: str) -> Place:
    route = app.amqp.router.route({}, task)
    return Place(route["queue"].name, route.get("priority", 0))
