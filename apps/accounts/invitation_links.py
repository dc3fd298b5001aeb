"""Invitations: a link with a secret, shown once, good for one person and for a while."""

import secrets
from datetime import timedelta
from typing import NamedTuple

from django.db import IntegrityError, transaction
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.authentication import digest_of
from apps.accounts.models import Invitation, Membership, Role, User, Workspace

LIFETIME = timedelta(days=7)


class AlreadyMember(Exception):
    """The person is in the workspace already."""


class InvitationGone(Exception):
    """The invitation was used, revoked or has expired."""


class AccountExists(Exception):
    """Somebody has this e-mail address already; they join by signing in."""


class NewInvitation(NamedTuple):
    """An invitation with its secret, which exists only here and in the link."""

    invitation: Invitation
    secret: str


@transaction.atomic
def invite(*, workspace: Workspace, email: str, role: Role, by: User) -> NewInvitation:
    """Offer membership. An earlier open invitation of the same address ends: one link at a time. Raises AlreadyMember."""
    Workspace.objects.select_for_update(no_key=True).get(
        pk=workspace.pk
    )  # two owners may invite the same person at once
    if Membership.objects.filter(workspace=workspace, user__email__iexact=email).exists():
        raise AlreadyMember(f"{email} is in {workspace} already. Change their role in the list of members.")
    Invitation.objects.open().filter(workspace=workspace, email__iexact=email).update(revoked_at=now())
    secret = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        workspace=workspace,
        email=email,
        role=role,
        digest=digest_of(secret),
        invited_by=by,
        expires_at=now() + LIFETIME,
    )
    audit.record(workspace=workspace, actor=by, action="invited", subject=f"{email} as {role.label}", about=invitation)
    return NewInvitation(invitation, secret)


@transaction.atomic
def revoke(*, invitation: Invitation, by: User) -> None:
    """End an open invitation. Raises InvitationGone."""
    if not Invitation.objects.open().filter(pk=invitation.pk).update(revoked_at=now()):
        raise InvitationGone("This invitation was already used, was revoked, or has expired.")
    audit.record(
        workspace=invitation.workspace,
        actor=by,
        action="revoked the invitation of",
        subject=invitation.email,
        about=invitation,
    )


def find(secret: str) -> Invitation | None:
    """The open invitation behind a link."""
    return Invitation.objects.open().select_related("workspace", "invited_by").filter(digest=digest_of(secret)).first()


@transaction.atomic
def accept(*, invitation: Invitation, user: User) -> Membership:
    """Join as `user`. Raises InvitationGone when somebody was faster, AlreadyMember."""
    if Membership.objects.filter(workspace=invitation.workspace_id, user=user).exists():
        raise AlreadyMember(f"You are in {invitation.workspace} already.")
    if not Invitation.objects.open().filter(pk=invitation.pk).update(accepted_at=now()):
        raise InvitationGone("This invitation was already used, was revoked, or has expired. Ask for a new one.")
    membership = Membership.objects.create(workspace=invitation.workspace, user=user, role=invitation.role)
    audit.record(
        workspace=invitation.workspace,
        actor=user,
        action="joined as",
        subject=Role(invitation.role).label,
        about=membership,
        invitation=str(invitation.pk),
        invited=invitation.email,
    )
    return membership


def accept_as_new(*, invitation: Invitation, name: str, password: str) -> Membership:
    """Create the account of the invited address and join. Raises AccountExists, InvitationGone."""
    try:
        with transaction.atomic():
            user = User.objects.create_user(email=invitation.email, name=name, password=password)
            return accept(invitation=invitation, user=user)
    except IntegrityError as error:
        raise AccountExists(f"{invitation.email} has an account already. Sign in to join.") from error
