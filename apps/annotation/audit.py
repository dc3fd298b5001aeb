"""Audit records of actions on queues and in them; see `accounts.audit`."""

from typing import Any

from apps.accounts import audit
from apps.accounts.models import User
from apps.annotation.models import Queue


def record(
    queue: Queue, by: User | None, action: str, /, *, who: object = None, target: Any = None, **detail: Any
) -> None:
    """Record that `by` did `action` to a queue or, if given, to `who` in it."""
    audit.record(
        workspace=queue.workspace,
        actor=by,
        action=action,
        subject=f"{who} in {queue}" if who else queue.name,
        target=target or queue,
        **detail,
    )
