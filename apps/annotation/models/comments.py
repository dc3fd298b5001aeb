"""Comments on trajectories, and mentions in them."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import CheckConstraint, Exists, Index, OuterRef, Q, UniqueConstraint

from apps.accounts.models import Membership, Role, User, WorkspaceModel, WorkspaceQuerySet
from apps.annotation.models.items import Assignment, Item, open_items_of
from apps.annotation.models.judgments import undecided_for
from apps.annotation.models.queues import Queue
from apps.trajectories.models import Trajectory


def unanswered_by(member: Membership) -> models.QuerySet[Item]:
    """The items that this member may still have to judge or decide blind.

    Items on one's own desk; for reviewers, also items they may have to decide; for annotators, any item they may still get.
    """
    blind = Q(pk__in=open_items_of(member)) | Q(pk__in=undecided_for(member).values("pk"))
    if member.is_reviewer:
        return Item.objects.filter(blind)
    judged = Assignment.objects.filter(
        item=OuterRef("pk"), annotator__user=member.user_id, state=Assignment.State.JUDGED
    )
    to_come = Q(queue__workspace=member.workspace_id) & ~Q(queue__state__in=[Queue.State.CLOSED, Queue.State.FAILED])
    return Item.objects.filter(blind | (to_come & ~Exists(judged)))


class CommentQuerySet(WorkspaceQuerySet["Comment"]):
    def visible_to(self, member: Membership, *, at_least: Role | None = None) -> Self:
        """One's own comments, and others' unless one may still have to judge the trajectory blind. Annotators only see those that mention them."""
        comments = super().visible_to(member, at_least=at_least)
        if not member.is_reviewer:
            mentions = Mention.objects.filter(comment=OuterRef("pk"), user=member.user_id)
            comments = comments.filter(Q(by=member.user_id) | Exists(mentions))
        trajectory = OuterRef("trajectory")
        blind = Exists(unanswered_by(member).filter(Q(a=trajectory) | Q(b=trajectory)))
        return comments.filter(Q(by=member.user_id) | ~blind)


class Comment(WorkspaceModel):
    """A comment on a trajectory. It isn't a judgment: nothing is trained on it."""

    visible_from = Role.ANNOTATOR

    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="comments", db_index=False)
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    text = models.TextField()

    objects = CommentQuerySet.as_manager()

    class Meta:
        constraints = [CheckConstraint(condition=~Q(text=""), name="comments_say_something")]
        indexes = [Index(fields=["trajectory", "-id"], name="comment_of_trajectory")]


class Mention(models.Model):
    """A comment mentions somebody: listed on their home page until they mark it as read."""

    comment = models.ForeignKey(Comment, on_delete=models.CASCADE, related_name="mentions")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    read_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [UniqueConstraint(fields=["comment", "user"], name="one_mention_per_person")]
        indexes = [Index(fields=["user", "-id"], condition=Q(read_at=None), name="mention_unread")]
