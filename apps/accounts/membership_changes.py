"""Changes of members and their roles. There is always at least one owner."""

from functools import partial

from django.db import transaction
from django.utils.text import slugify
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import Invitation, InvitationQuerySet, Membership, Role, User, Workspace
from apps.accounts.owners import lock, lock_as_owner
from apps.common import live
from apps.common.ids import new_id


class NoMember(Exception):
    """The person is no longer in the workspace."""


class LastOwner(Exception):
    """The last owner of a workspace can't be removed or demoted."""


class IsOwner(Exception):
    """Owners can only be appointed, changed, and removed on the page."""


@transaction.atomic
def found_workspace(*, name: str, owner: User) -> Membership:
    """A new workspace with its first member."""
    slug = slugify(name)[:90] or "workspace"
    workspace, is_new = Workspace.objects.get_or_create(slug=slug, defaults={"name": name})
    if not is_new:  # another workspace with the same name
        workspace = Workspace.objects.create(name=name, slug=f"{slug}-{str(new_id())[-8:]}")
    membership = Membership.objects.create(workspace=workspace, user=owner, role=Role.OWNER)
    audit.record(workspace=workspace, actor=owner, action="created workspace", subject=name, target=workspace)
    return membership


@transaction.atomic
def change_role(*, membership: Membership, role: Role, by: User, spares_owners: bool = False) -> None:
    """Give a member another role. Raises LastOwner, NoMember, NotOwner; IsOwner if `spares_owners`."""
    lock_as_owner(membership.workspace_id, by)
    _read_again(membership)
    if spares_owners:
        _refuse_owner(membership)
    if role != Role.OWNER:
        _keep_an_owner(membership)
    before = Role(membership.role)
    membership.role = role
    membership.save(update_fields=["role"])
    transaction.on_commit(partial(live.recheck_access, membership.pk))
    if role != Role.OWNER:
        _end_invitations_by(membership)
    audit.record(
        workspace=membership.workspace,
        actor=by,
        action="changed the role of",
        subject=f"{membership.user} from {before.label} to {role.label}",
        target=membership,
    )


@transaction.atomic
def remove(*, membership: Membership, by: User, spares_owners: bool = False) -> None:
    """End a membership, its API tokens, and open invitations by or for the person; their judgments stay.

    Raises LastOwner, NoMember, NotOwner; IsOwner if `spares_owners`.
    """
    if by == membership.user:
        lock(membership.workspace_id)
    else:
        lock_as_owner(membership.workspace_id, by)
    _read_again(membership)
    # Otherwise the person could keep the deletion from succeeding by adding rows that refer to the membership.
    Membership.objects.select_for_update().get(pk=membership.pk)
    if spares_owners:
        _refuse_owner(membership)
    _keep_an_owner(membership)
    _end_invitations_by(membership)
    _open_invitations(membership).filter(email__lower=membership.user.email.lower()).update(revoked_at=now())
    audit.record(
        workspace=membership.workspace,
        actor=by,
        action="left" if by == membership.user else "removed",
        subject=membership.workspace.name if by == membership.user else str(membership.user),
        target=membership,
        email=membership.user.email,
        role=Role(membership.role).label,
    )
    transaction.on_commit(partial(live.recheck_access, membership.pk))
    membership.delete()


def _end_invitations_by(membership: Membership) -> None:
    """A former owner may know open invitation links, which would let them back in."""
    _open_invitations(membership).filter(invited_by=membership.user_id).update(revoked_at=now())


def _open_invitations(membership: Membership) -> InvitationQuerySet:
    return Invitation.objects.open().filter(workspace=membership.workspace_id)


def _read_again(membership: Membership) -> None:
    """Read the role under the workspace's lock, so that two owners can't remove each other concurrently."""
    try:
        membership.refresh_from_db(fields=["role"])
    except Membership.DoesNotExist:
        raise NoMember(f"{membership.user} is not in {membership.workspace} any more.") from None


def _refuse_owner(membership: Membership) -> None:
    if membership.role == Role.OWNER:
        raise IsOwner(
            f"{membership.user} is an owner. Change or remove owners on the page, under Settings, Members: it asks for your password."
        )


def _keep_an_owner(membership: Membership) -> None:
    """Refuse to remove or demote the last owner."""
    if membership.role != Role.OWNER:
        return
    other_owners = Membership.objects.filter(workspace=membership.workspace_id, role=Role.OWNER).exclude(
        pk=membership.pk
    )
    if not other_owners.exists():
        raise LastOwner(
            f"{membership.user} is the only owner of {membership.workspace}. Make somebody else an owner first."
        )
