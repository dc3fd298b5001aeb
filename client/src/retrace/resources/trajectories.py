"""Trajectories."""

from __future__ import annotations

from typing import Any, Literal, Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Listing, Resource, listing, operation
from retrace.core.request import address
from retrace.models.trajectories import Comment, Filter, Mention, Say, Trajectory


class Trajectories(Resource[C]):
    @listing
    def list(self, *, page_size: int | None = None, **filters: Unpack[Filter]) -> Listing[Trajectory]:
        """The trajectories that match every filter, newest first."""
        return Listing("/trajectories", Trajectory, {**filters, "page_size": page_size})

    @operation
    def read(self, trajectory_id: str, *, form: Literal["retrace", "atif"] | None = None) -> Flow[dict[str, Any]]:
        """Read one in full, in Retrace's own import format, or in ATIF, which other tools read."""
        return self._read("/trajectories/{}", trajectory_id, answer=dict[str, Any], form=form)

    @listing
    def comments(self, trajectory_id: str, *, page_size: int | None = None) -> Listing[Comment]:
        """The comments on a trajectory, newest first."""
        return Listing(address("/trajectories/{}/comments", trajectory_id), Comment, {"page_size": page_size})

    @operation
    def comment(self, trajectory_id: str, **comment: Unpack[Say]) -> Flow[Comment]:
        """Comment on a trajectory. `@` before the name or e-mail address of a member mentions them."""
        return self._create("/trajectories/{}/comments", trajectory_id, answer=Comment, body=comment)


class Comments(Resource[C]):
    """Your own comments, and comments that mention you."""

    @operation
    def remove(self, comment_id: str) -> Flow[Comment]:
        """Remove a comment of your own."""
        return self._act("/comments/{}/remove", comment_id, answer=Comment)

    @listing
    def mentions(self, *, page_size: int | None = None) -> Listing[Mention]:
        """Unread comments that mention you, newest first."""
        return Listing("/mentions", Mention, {"page_size": page_size})

    @operation
    def read_mention(self, mention_id: int) -> Flow[Mention]:
        """Mark a mention as read."""
        return self._act("/mentions/{}/read", mention_id, answer=Mention)
