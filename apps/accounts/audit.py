"""The record of who did what, written in the same transaction as what was done."""

from typing import Any

from apps.accounts.models import AuditEntry, User, Workspace, subject_id


def record(
    *, workspace: Workspace, actor: User | None, action: str, subject: str, about: Any = None, **detail: Any
) -> AuditEntry:
    """Write down that `actor` did `action` to `subject`; read together they are a sentence."""
    return AuditEntry.objects.create(
        workspace=workspace,
        actor=actor,
        action=action,
        subject=subject[:200],
        subject_id=subject_id(about),
        detail=detail,
    )
