"""Feedback from an agent's users on its sessions, and the keys for sending it from browsers."""

from __future__ import annotations

import secrets
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.authentication import digest_of
from apps.accounts.models import Membership, User, Workspace
from apps.gateway.models import Call, Feedback, FeedbackKey, Session
from apps.gateway.sessions import NoSuchCall, SessionRefused
from apps.redaction.rules import redacted

MARK = "rf_"
PREFIX_LENGTH = len(MARK) + 6
MAX_COMMENT_LENGTH = 2_000
MAX_ANSWER_LENGTH = 20_000
MAX_PER_SESSION = 50
MAX_KEYS = 100
"""Active keys per workspace."""


class SaysNothing(SessionRefused):
    """Neither a thumb, a comment, nor an edited answer was given."""

    field = "thumb"


class SaidEnough(SessionRefused):
    """The session has reached the maximum number of feedback entries."""

    field = "session"


class KeysEnough(SessionRefused):
    """The workspace has the maximum number of feedback keys. Each has a rate limit of its own."""

    field = "name"


class NewFeedbackKey(NamedTuple):
    """A key with its secret, which exists only here and with the requester."""

    key: FeedbackKey
    secret: str


@transaction.atomic
def create_key(*, member: Membership, name: str) -> NewFeedbackKey:
    """Create a key that is safe to embed in web pages. Raises KeysEnough."""
    Workspace.objects.select_for_update(no_key=True).get(pk=member.workspace_id)  # serializes the count
    if FeedbackKey.objects.filter(workspace=member.workspace_id, revoked_at=None).count() >= MAX_KEYS:
        raise KeysEnough(f"This workspace has {MAX_KEYS} feedback keys, which is the maximum. Revoke one first.")
    secret = MARK + secrets.token_urlsafe(32)
    key = FeedbackKey.objects.create(
        workspace=member.workspace,
        name=name,
        prefix=secret[:PREFIX_LENGTH],
        digest=digest_of(secret),
        created_by=member.user,
    )
    _record(key, member.user, "made feedback key")
    return NewFeedbackKey(key, secret)


@transaction.atomic
def revoke_key(*, key: FeedbackKey, by: User) -> None:
    """Revoke a key immediately. Idempotent."""
    if FeedbackKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now()):
        _record(key, by, "revoked feedback key")


@transaction.atomic
def record_feedback(
    *,
    session: Session,
    key: FeedbackKey | None = None,
    thumb: int | None = None,
    comment: str = "",
    edited: str = "",
    call_id: UUID | None = None,
) -> Feedback:
    """Store a user's feedback, during the session or afterwards. Raises SaysNothing, SaidEnough, or NoSuchCall."""
    if thumb is None and not comment and not edited:
        raise SaysNothing("Give a thumb, a comment, or an edited answer.")
    Session.objects.select_for_update(no_key=True).only("pk").get(pk=session.pk)  # serializes the count
    if session.feedback.count() >= MAX_PER_SESSION:
        raise SaidEnough(f"This session has feedback {MAX_PER_SESSION} times already; no more is kept.")
    if call_id is not None and not Call.objects.filter(session=session, pk=call_id).exists():
        raise NoSuchCall(f"This session has no call {call_id}.")
    comment, edited = redacted(session.workspace_id, [comment, edited])
    return Feedback.objects.create(
        session=session, key=key, thumb=thumb, comment=comment, edited=edited, call_id=call_id
    )


def feedback_to_judge() -> QuerySet[Feedback]:
    """Feedback on ended sessions: they are trajectories by now, or never will be."""
    return Feedback.objects.filter(judged_at=None).exclude(session__state=Session.State.OPEN).order_by("session")


def _record(key: FeedbackKey, by: User, action: str) -> None:
    audit.record(workspace=key.workspace, actor=by, action=action, subject=f"{key.name} ({key.prefix}…)", target=key)
