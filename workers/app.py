"""The Celery application as workers run it: their tasks, the clock, and what happens when one starts."""

import os
from typing import Any

from celery.signals import worker_init, worker_process_init

from apps.common.broker import app
from contract.lifetime import die_with_parent
from workers.preload import load

__all__ = ["app"]

# Only `make run` fills a demo workspace, so only there does its story go on.
DEMO: dict[str, dict[str, Any]] = (
    {"go-on-with-the-demo": {"task": "demo.go_on", "schedule": 5.0}}
    if os.environ.get("RETRACE_ENV", "development") == "development"
    else {}
)

CLOCK: dict[str, dict[str, Any]] = {
    "restore-adapters": {"task": "publishing.restore_adapters", "schedule": 60.0},
    "advance-experiments": {"task": "experiments.advance_all", "schedule": 10.0},
    "settle-traces": {"task": "traces.settle", "schedule": 5.0},
    "forget-spans": {"task": "traces.forget", "schedule": 300.0},
    "forget-deliveries": {"task": "webhooks.forget", "schedule": 3600.0},
    "apply-retention-rules": {"task": "removal.apply_rules", "schedule": 3600.0},
    "clear-sessions": {"task": "sessions.clear", "schedule": 3600.0},
    "clear-answers": {"task": "answers.clear", "schedule": 3600.0},
    **DEMO,
    "recover-jobs": {"task": "jobs.recover", "schedule": 15.0},
    "expire-leases": {"task": "leases.expire", "schedule": 15.0},
}
STALE_SECONDS = 600
"""What the clock asked for so long ago was asked for again since: workers that were away for a night have nothing to catch up with."""

app.conf.update(
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
    imports=["workers.presence", "workers.tasks"],
    beat_schedule={name: {**entry, "options": {"expires": STALE_SECONDS}} for name, entry in CLOCK.items()},
)


@worker_init.connect
def _load(**_: Any) -> None:
    load()


@worker_process_init.connect
def _end_with_the_worker(**_: Any) -> None:
    """A pool process whose worker was killed would otherwise finish its task first: a second one may have begun by then."""
    die_with_parent()
