"""Leases: a worker owns a piece of work for as long as it renews its lease, and loses it when it falls silent.

Taking work numbers the attempt, and everything that a worker writes is conditional on that number. So a worker that was believed
dead and comes back can change nothing.
"""

from datetime import timedelta

from django.conf import settings

REMIND_AFTER = timedelta(minutes=10)
"""When to tell the workers again about work that waits: the message may have been lost with the broker."""


class Superseded(Exception):
    """This attempt no longer owns its work: the lease expired and someone else has it, or it is over."""


def lease() -> timedelta:
    """How long a worker may be silent before its work is given to another."""
    return timedelta(seconds=settings.WORKER_LEASE_SECONDS)
