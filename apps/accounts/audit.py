"""The audit log, written in the same transaction as the audited change."""

from typing import Any

from apps.accounts.models import AuditEntry, User, Workspace, subject_id


def record(
    *, workspace: Workspace, actor: User | None, action: str, subject: str, target: Any = None, **detail: Any
) -> AuditEntry:
    """Record that `actor` did `action` to `subject`; together they read as a sentence."""
    return AuditEntry.objects.create(
        workspace=workspace,
        actor=actor,
        action=action,
        subject=subject[:200],
        subject_id=subject_id(target),
        detail=detail,
    )
