"""Members of a workspace, and invitations. Owners can only be appointed, changed, and removed on the page."""

from __future__ import annotations

from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.models.members import ChangeRole, Invitation, Invite, LinkedInvitation, Member


class Members(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Member]:
        """All members, newest first."""
        return Listing("/members", Member, {"page_size": page_size})

    @operation
    def change_role(self, membership_id: int, **change: Unpack[ChangeRole]) -> Flow[Member]:
        """Change a member's role."""
        return self._create("/members/{}/role", membership_id, answer=Member, body=change)

    @operation
    def remove(self, membership_id: int) -> Flow[Member]:
        """Remove a member and their API tokens. Their judgments stay."""
        return self._act("/members/{}/remove", membership_id, answer=Member)


class Invitations(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Invitation]:
        """Open invitations, newest first."""
        return Listing("/invitations", Invitation, {"page_size": page_size})

    @operation
    def create(self, **invitation: Unpack[Invite]) -> Flow[LinkedInvitation]:
        """Invite somebody. The link is shown only once and isn't e-mailed."""
        return self._create("/invitations", answer=LinkedInvitation, body=invitation, is_remembered=False)

    @operation
    def revoke(self, invitation_id: str) -> Flow[Invitation]:
        """Revoke an open invitation."""
        return self._act("/invitations/{}/revoke", invitation_id, answer=Invitation)
