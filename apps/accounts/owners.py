"""What only owners may do to the members of a workspace, decided under its lock."""

from uuid import UUID

from apps.accounts.models import Membership, Role, User, Workspace


class NotOwner(Exception):
    """Whoever asks is no owner any more."""


def lock_as_owner(workspace_id: UUID, by: User) -> None:
    """Serialize changes of a workspace's members. Raises NotOwner.

    The request may have waited for the lock while its sender was removed, or made less than an owner.
    """
    lock(workspace_id)
    if not Membership.objects.filter(workspace=workspace_id, user=by, role=Role.OWNER).exists():
        raise NotOwner("You are no longer an owner of this workspace.")


def lock(workspace_id: UUID) -> None:
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
