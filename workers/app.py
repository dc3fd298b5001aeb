"""The workers' Celery application: tasks, periodic schedule, and startup."""

import os
from typing import Any

from celery.signals import worker_init, worker_process_init

from apps.common.broker import app
from contract.lifetime import die_with_parent
from workers.preload import load

__all__ = ["app"]

# Only `make run` creates a demo workspace, so only there is it advanced.
DEMO_TASKS: dict[str, dict[str, Any]] = (
    {"advance-demo": {"task": "demo.advance", "schedule": 5.0}}
    if os.environ.get("RETRACE_ENV", "development") == "development"
    else {}
)

PERIODIC_TASKS: dict[str, dict[str, Any]] = {
    "restore-adapters": {"task": "publishing.restore_adapters", "schedule": 60.0},
    "advance-experiments": {"task": "experiments.advance_all", "schedule": 10.0},
    "settle-traces": {"task": "traces.settle", "schedule": 5.0},
    "forget-spans": {"task": "traces.delete_spans", "schedule": 300.0},
    "forget-deliveries": {"task": "webhooks.delete_old", "schedule": 3600.0},
    "apply-retention-rules": {"task": "removal.apply_rules", "schedule": 3600.0},
    "expire-archives": {"task": "transfer.expire", "schedule": 3600.0},
    "clear-sessions": {"task": "sessions.clear", "schedule": 3600.0},
    "delete-abandoned-uploads": {"task": "uploads.delete_abandoned", "schedule": 3600.0},
    "clear-idempotency-keys": {"task": "idempotency_keys.clear", "schedule": 3600.0},
    **DEMO_TASKS,
    "recover-jobs": {"task": "jobs.recover", "schedule": 15.0},
    "expire-leases": {"task": "leases.expire", "schedule": 15.0},
}
EXPIRY_SECONDS = 600
"""Expiry of periodic tasks in seconds: they are sent again anyway, so workers that were down overnight don't have to catch up."""

app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    # Wait indefinitely for a broker that is down, or refuses messages because its disk is full.
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_channel_error_retry=True,
    worker_consumer="workers.broker_backoff:BackoffConsumer",
    # Beat keeps no state on disk. After a restart, periodic tasks are first sent an interval later.
    beat_scheduler="celery.beat:Scheduler",
    imports=["workers.presence", "workers.tasks"],
    beat_schedule={name: {**entry, "options": {"expires": EXPIRY_SECONDS}} for name, entry in PERIODIC_TASKS.items()},
)


@worker_init.connect
def _load(**_: Any) -> None:
    load()


@worker_process_init.connect
def _exit_with_worker(**_: Any) -> None:
    """Make a pool process die with its worker; otherwise it would finish its task, which another worker may have started by then."""
    die_with_parent()
