"""Invitations: a single-use, expiring link with a secret that is shown once."""

import secrets
from datetime import timedelta
from typing import NamedTuple

from django.db import IntegrityError, transaction
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.authentication import digest_of
from apps.accounts.models import Invitation, Membership, Role, User, Workspace
from apps.accounts.owners import lock_as_owner

LIFETIME = timedelta(days=7)


class AlreadyMember(Exception):
    """The person is already in the workspace."""


class InvitationGone(Exception):
    """The invitation was used or revoked, or has expired."""


class AccountExists(Exception):
    """There is already an account with this e-mail address; its owner joins by signing in."""


class NewInvitation(NamedTuple):
    """An invitation with its secret, which isn't stored."""

    invitation: Invitation
    secret: str


@transaction.atomic
def invite(*, workspace: Workspace, email: str, role: Role, by: User) -> NewInvitation:
    """Invite a person. This revokes an earlier open invitation for the same address. Raises AlreadyMember, NotOwner."""
    lock_as_owner(workspace.pk, by)  # two owners may invite the same person concurrently
    if Membership.objects.filter(workspace=workspace, user__email__lower=email.lower()).exists():
        raise AlreadyMember(f"{email} is in {workspace} already. Change their role in the list of members.")
    Invitation.objects.open().filter(workspace=workspace, email__lower=email.lower()).update(revoked_at=now())
    secret = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        workspace=workspace,
        email=email,
        role=role,
        digest=digest_of(secret),
        invited_by=by,
        expires_at=now() + LIFETIME,
    )
    audit.record(workspace=workspace, actor=by, action="invited", subject=f"{email} as {role.label}", target=invitation)
    return NewInvitation(invitation, secret)


@transaction.atomic
def revoke(*, invitation: Invitation, by: User) -> None:
    """Revoke an open invitation. Raises InvitationGone."""
    if not Invitation.objects.open().filter(pk=invitation.pk).update(revoked_at=now()):
        raise InvitationGone("This invitation was already used, was revoked, or has expired.")
    audit.record(
        workspace=invitation.workspace,
        actor=by,
        action="revoked the invitation of",
        subject=invitation.email,
        target=invitation,
    )


def find(secret: str) -> Invitation | None:
    """The open invitation behind a link."""
    return Invitation.objects.open().select_related("workspace", "invited_by").filter(digest=digest_of(secret)).first()


@transaction.atomic
def accept(*, invitation: Invitation, user: User) -> Membership:
    """Join as `user`. Raises InvitationGone, also if somebody else was faster, and AlreadyMember."""
    if Membership.objects.filter(workspace=invitation.workspace_id, user=user).exists():
        raise AlreadyMember(f"You are in {invitation.workspace} already.")
    if not Invitation.objects.open().filter(pk=invitation.pk).update(accepted_at=now()):
        raise InvitationGone("This invitation was already used, was revoked, or has expired. Ask for a new one.")
    membership, is_new = Membership.objects.get_or_create(
        workspace=invitation.workspace, user=user, defaults={"role": invitation.role}
    )
    if not is_new:  # they accepted another invitation at the same moment
        raise AlreadyMember(f"You are in {invitation.workspace} already.")
    audit.record(
        workspace=invitation.workspace,
        actor=user,
        action="joined as",
        subject=Role(invitation.role).label,
        target=membership,
        invitation=str(invitation.pk),
        invited=invitation.email,
    )
    return membership


def accept_as_new(*, invitation: Invitation, name: str, password: str) -> Membership:
    """Create an account for the invited address and join. Raises AccountExists, InvitationGone."""
    try:
        with transaction.atomic():
            user = User.objects.create_user(email=invitation.email, name=name, password=password)
            return accept(invitation=invitation, user=user)
    except IntegrityError as error:
        raise AccountExists(f"{invitation.email} has an account already. Sign in to join.") from error
