"""Sends pending deliveries: one worker at a time per destination, with retries at increasing intervals for up to three days.

If a worker is killed between the response and recording it, the delivery is sent again. Receivers recognize it by its id.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import Membership, Role, Workspace
from apps.common.broker import enqueue
from apps.webhooks.channels import CHANNELS
from apps.webhooks.channels.channel import Outcome
from apps.webhooks.channels.email import notify_turned_off
from apps.webhooks.models import GIVEN_UP_AFTER, Delivery, Destination
from apps.webhooks.outbox import TASK

LEASE = timedelta(minutes=2)
"""Renewed before each message, which takes seconds."""
SLICE_SECONDS = 20.0
"""Time after which a worker hands the destination on, so that other tasks get their turn."""
FIRST_INTERVAL, FACTOR, MAX_INTERVAL = 15.0, 4.0, 12 * 3600.0
"""Seconds: 15 s, 1 min, 4 min, 16 min, 1 h, 4 h, then every 12 h."""
MAX_PAUSE_SECONDS = 600.0
"""Maximum pause in seconds after a failure before a destination is tried again, however many deliveries are pending."""
BATCH_SIZE = 100


def deliver(destination_id: UUID) -> None:
    """Send what is due to a destination, unless a worker is already sending for its workspace. The rest is left to another task."""
    destination = _lease(destination_id)
    if destination is None:
        return
    if reason := _off_reason(destination):
        turn_off(destination, reason)
        _enqueue_next(destination)
        return
    channel, deadline = CHANNELS[destination.kind], time.monotonic() + SLICE_SECONDS
    with channel.open(destination) as send:
        while time.monotonic() < deadline and _renew(destination):
            due = list(destination.deliveries.due().order_by("next_at", "pk")[: channel.max_batch])
            if not due:
                break
            if not _record_outcome(destination, due, send(due)):
                break
            if channel.pause_seconds:
                _pause(destination, channel.pause_seconds)
                break
    Destination.objects.filter(pk=destination.pk, leased_until=destination.leased_until).update(leased_until=None)
    _enqueue_next(destination)


def deliver_due() -> None:
    """Enqueue what is due: retries, and deliveries whose task was lost. In random order, so that the limit doesn't always exclude the same ones."""
    due = Delivery.objects.due().filter(destination=OuterRef("pk"))
    for pk in Destination.objects.idle().filter(Exists(due)).order_by("?").values_list("pk", flat=True)[:BATCH_SIZE]:
        enqueue(TASK, str(pk))


@transaction.atomic
def _lease(destination_id: UUID) -> Destination | None:
    """Lease the destination; None if it's busy or a worker already sends for its workspace, so that slow receivers block only one worker."""
    destination = Destination.objects.select_related("workspace", "created_by").filter(pk=destination_id).first()
    if destination is None:
        return None
    # Otherwise two would both find none.
    Workspace.objects.select_for_update(no_key=True).get(pk=destination.workspace_id)
    if Destination.objects.filter(workspace=destination.workspace_id, leased_until__gte=now()).exists():
        return None  # the one sending hands on to this one
    destination.leased_until = now() + LEASE
    rows = Destination.objects.idle().filter(pk=destination_id)
    return destination if rows.update(leased_until=destination.leased_until) else None


def _enqueue_next(destination: Destination) -> None:
    """Enqueue another destination of the workspace with deliveries due, or this one again."""
    due = Delivery.objects.due().filter(destination=OuterRef("pk"))
    idle = Destination.objects.idle().filter(Exists(due), workspace=destination.workspace_id)
    following = idle.exclude(pk=destination.pk).order_by("?").first() or idle.first()
    if following is not None:
        enqueue(TASK, str(following.pk))


def _renew(destination: Destination) -> bool:
    """Extend the lease for another message; False if another worker has it, or it was turned off."""
    until = now() + LEASE
    rows = Destination.objects.on().filter(pk=destination.pk, leased_until=destination.leased_until)
    if not rows.update(leased_until=until):
        return False
    destination.leased_until = until
    return True


def _off_reason(destination: Destination) -> str:
    """Why sending must stop: whoever turned it on is no longer allowed to see these events. Empty if they are."""
    memberships = Membership.objects.filter(
        workspace=destination.workspace_id, user=destination.created_by, role__gte=Role.RESEARCHER, user__is_active=True
    )
    if destination.created_by is not None and memberships.exists():
        return ""
    person = destination.created_by or "Whoever turned it on"
    return f"{person} is no longer a researcher of this workspace. Turn it on again to take responsibility for it."


@transaction.atomic
def _record_outcome(destination: Destination, deliveries: Sequence[Delivery], outcome: Outcome) -> bool:
    """Record the result of an attempt; returns whether it was delivered."""
    at = now()
    attempt = {"attempts": F("attempts") + 1, "last_at": at, "status": outcome.status, "problem": outcome.problem}
    rows = Delivery.objects.waiting().filter(pk__in=[delivery.pk for delivery in deliveries])
    if not outcome.problem:
        rows.update(**attempt, state=Delivery.State.DELIVERED)
        if destination.failures:
            Destination.objects.filter(pk=destination.pk).update(failures=0, failing_since=None, quiet_until=None)
            destination.failures, destination.failing_since = 0, None
        return True
    for delivery in deliveries:
        next_at = at + _interval(delivery.attempts)
        schedule = {"state": Delivery.State.GIVEN_UP} if next_at > delivery.give_up_at else {"next_at": next_at}
        rows.filter(pk=delivery.pk).update(**attempt, **schedule)
    _count_failure(destination, at)
    if outcome.is_gone:
        turn_off(destination, outcome.problem)
    elif destination.failing_since and destination.failing_since < at - GIVEN_UP_AFTER:
        turn_off(destination, f"Everything failed for {GIVEN_UP_AFTER.days} days. Latest: {outcome.problem}")
    return False


def _count_failure(destination: Destination, at: datetime) -> None:
    pause = min(MAX_PAUSE_SECONDS, FIRST_INTERVAL * 2 ** min(destination.failures, 10))
    destination.failures += 1
    destination.failing_since = destination.failing_since or at
    destination.quiet_until = at + timedelta(seconds=pause)
    destination.save(update_fields=["failures", "failing_since", "quiet_until"])


def _pause(destination: Destination, seconds: int) -> None:
    Destination.objects.filter(pk=destination.pk).update(quiet_until=now() + timedelta(seconds=seconds))


def _interval(attempts: int) -> timedelta:
    """The wait before the next attempt, with ±20% jitter, so that deliveries that failed together aren't retried together."""
    seconds = min(MAX_INTERVAL, FIRST_INTERVAL * FACTOR ** min(attempts, 10))
    return timedelta(seconds=seconds * random.uniform(0.8, 1.2))


@transaction.atomic
def turn_off(destination: Destination, reason: str) -> None:
    """Turn the destination off until somebody turns it on again, and show why to owners. Pending deliveries are given up."""
    rows = Destination.objects.on().filter(pk=destination.pk)
    if not rows.update(is_on=False, off_reason=reason, leased_until=None, quiet_until=None):
        return
    destination.deliveries.waiting().update(state=Delivery.State.GIVEN_UP, problem="It was turned off.")
    audit.record(
        workspace=destination.workspace,
        actor=None,
        action="turned off webhook",
        subject=destination.name,
        target=destination,
        reason=reason,
    )
    transaction.on_commit(lambda: notify_turned_off(destination, reason), robust=True)
