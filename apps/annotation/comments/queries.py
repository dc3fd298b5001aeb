"""Queries on comments for pages and the API."""

from __future__ import annotations

from django.db.models import QuerySet

from apps.accounts.models import Membership, User
from apps.annotation.models import Comment, Mention
from apps.trajectories.models import Trajectory

SHOWN = 100


def comments_on(trajectory: Trajectory, member: Membership) -> QuerySet[Comment]:
    """The comments that this member may read, newest first."""
    return Comment.objects.visible_to(member).filter(trajectory=trajectory).select_related("by").order_by("-pk")


def unread_mentions(member: Membership) -> QuerySet[Mention]:
    """This member's unread mentions, except those they may not read yet."""
    readable = Comment.objects.visible_to(member)
    mentions = Mention.objects.filter(user=member.user_id, read_at=None, comment__in=readable)
    return mentions.select_related("comment__by", "comment__trajectory__task").only(
        *("user", "read_at", "comment__text", "comment__created_at", "comment__by__name", "comment__by__email"),
        *("comment__trajectory__task__key",),
    )


def people_of_workspace(member: Membership) -> QuerySet[User]:
    """The members of the workspace, by name."""
    people = User.objects.filter(memberships__workspace=member.workspace_id)
    return people.only("name", "email").order_by("name", "pk")


def people_to_mention(member: Membership) -> QuerySet[User]:
    """The members of the workspace except this one."""
    return people_of_workspace(member).exclude(pk=member.user_id)
