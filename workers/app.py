"""The Celery application: queues, routes and the clock. Apps enqueue by name (`enqueue`), so they never import a task."""

import os
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_process_init
from django.db import transaction

from workers.lifetime import die_with_parent
from workers.loading import load

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")


def _broker_url() -> str:
    from django.conf import settings

    # Celery spells a unix socket redis+socket://…?virtual_host=0 where redis-py says unix://…?db=0.
    url: str = settings.VALKEY_URL
    if url.startswith("unix://"):
        return url.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=")
    return url


# Only `make run` fills a demo workspace, so only there does its story go on.
DEMO: dict[str, dict[str, Any]] = (
    {"go-on-with-the-demo": {"task": "demo.go_on", "schedule": 5.0}}
    if os.environ.get("RETRACE_ENV", "development") == "development"
    else {}
)

CLOCK: dict[str, dict[str, Any]] = {
    "resume-imports": {"task": "imports.recover", "schedule": 15.0},
    "resume-freezing": {"task": "freezing.resume", "schedule": 30.0},
    "restore-adapters": {"task": "publishing.restore_adapters", "schedule": 60.0},
    "advance-experiments": {"task": "experiments.advance_all", "schedule": 10.0},
    "clear-sessions": {"task": "sessions.clear", "schedule": 3600.0},
    **DEMO,
    "expire-leases": {"task": "leases.expire", "schedule": 15.0},
}
STALE_SECONDS = 600
"""What the clock asked for so long ago was asked for again since: workers that were away for a night have nothing to catch up with."""

app = Celery("retrace")
app.conf.update(
    broker_url=_broker_url(),
    task_ignore_result=True,  # outcomes live in Postgres, where pages read them
    task_default_queue="default",
    task_routes={f"{kind}.*": {"queue": "gpu"} for kind in ("training", "rollouts", "continuations", "scoring")},
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    # A broker that is away, or refuses orders because its disk is full, is waited for without end.
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_channel_error_retry=True,
    worker_consumer="workers.patience:PatientConsumer",
    # It keeps nothing on a disk. What is asked for at intervals is asked for again an interval after a restart.
    beat_scheduler="celery.beat:Scheduler",
    # A task not acknowledged within this time is given to another worker. Long runs renew a lease in Postgres and
    # refuse the second delivery, so this only bounds how long a lost message stays lost.
    broker_transport_options={
        "visibility_timeout": 3600,
        "global_keyprefix": "celery:",
        # Seconds; more than a worker ever waits for the next message. Whoever sends one must not hang with Valkey.
        "socket_connect_timeout": 5,
        "socket_timeout": 30,
    },
    imports=[
        "workers.presence",
        *(f"workers.tasks.{module.name}" for module in iter_modules([str(Path(__file__).with_name("tasks"))])),
    ],
    beat_schedule={name: {**entry, "options": {"expires": STALE_SECONDS}} for name, entry in CLOCK.items()},
    timezone="UTC",
)


def enqueue(task: str, *args: Any) -> None:
    """Send a task once the current transaction commits; at once where there is none.

    Where the broker is away, that is logged and nothing else: what is committed holds, and the clock tells the workers of all that waits.
    """
    transaction.on_commit(lambda: app.send_task(task, args=args), robust=True)


@worker_init.connect
def _load(**_: Any) -> None:
    load()


@worker_process_init.connect
def _end_with_the_worker(**_: Any) -> None:
    """A pool process whose worker was killed would otherwise finish its task first: a second one may have begun by then."""
    die_with_parent()
