"""Giving back what people and workers held and let go. Each app says what that is; the clock asks every 15 seconds."""

import logging

from apps.annotation.desk import assignments
from apps.annotation.queues import items, settings
from workers.app import app

log = logging.getLogger(__name__)

CHORES = (
    assignments.expire_leases,
    items.fill_stalled,
    settings.close_ended,
)
"""Functions without arguments that may run twice, at once, or late."""


@app.task(name="leases.expire", acks_late=False)
def expire() -> None:
    """Run every chore; one that fails does not keep the others from running."""
    for chore in CHORES:
        try:
            chore()
        except Exception:  # a chore may fail at anything: it is other people's work that it looks after
            log.exception("%s.%s failed; it runs again in 15 seconds", chore.__module__, chore.__name__)
