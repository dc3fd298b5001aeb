"""Restricts changes of a workspace's members to owners, decided under the workspace's lock."""

from uuid import UUID

from apps.accounts.models import Membership, Role, User, Workspace


class NotOwner(Exception):
    """The person who makes the request is no longer an owner."""


def lock_as_owner(workspace_id: UUID, by: User) -> None:
    """Serialize changes of a workspace's members. Raises NotOwner.

    The request may have waited for the lock while its sender was removed or demoted.
    """
    lock(workspace_id)
    if not Membership.objects.filter(workspace=workspace_id, user=by, role=Role.OWNER).exists():
        raise NotOwner("You are no longer an owner of this workspace.")


def lock(workspace_id: UUID) -> None:
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
