"""Giving back what people and workers held and let go. Each app says what that is; the clock asks every 15 seconds."""

import logging

from apps.annotation.desk import assigning, continuing
from apps.annotation.judges import sending
from apps.annotation.queues import filling, setting
from apps.policies import delivering
from apps.training import recovering
from apps.trajectories.rollouts import harvesting
from workers.app import app

log = logging.getLogger(__name__)

CHORES = (
    assigning.expire_leases,
    filling.fill_stalled,
    continuing.recover_continuations,
    setting.close_ended,
    sending.resume_forsaken,
    recovering.recover_runs,
    harvesting.recover_rollouts,
    delivering.recover_publications,
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
