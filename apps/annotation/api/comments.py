"""REST for comments on trajectories and for mentions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.annotation.comments import actions, queries
from apps.annotation.models import Comment, Mention
from apps.annotation.refusals import Refusal
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer
from apps.trajectories.models import Trajectory


class CommentSerializer(serializers.ModelSerializer[Comment]):
    """A comment on a trajectory."""

    by = serializers.CharField(source="by.name", default="", read_only=True)

    class Meta:
        model = Comment
        fields = ["id", "trajectory", "by", "text", "created_at"]
        read_only_fields = fields


class NewCommentSerializer(RequestSerializer):
    """A new comment. `@` before the name or email address of a member mentions them."""

    text = serializers.CharField(max_length=actions.MAX_LENGTH)


class MentionSerializer(serializers.ModelSerializer[Mention]):
    """A comment that mentions the token's owner."""

    comment = CommentSerializer(read_only=True)

    class Meta:
        model = Mention
        fields = ["id", "comment", "read_at"]
        read_only_fields = fields


class CommentsView(ListView):
    """The comments on a trajectory."""

    needs = Role.REVIEWER

    @extend_schema(
        operation_id="trajectory_comments_list",
        summary="List the comments on a trajectory, newest first",
        description="Leaves out others' comments while the trajectory is on your desk or waits for your blind decision.",
        responses=CommentSerializer(many=True),
    )
    def get(self, request: Request, trajectory_id: UUID) -> Response:
        return self.page_of(queries.comments_on(self._trajectory(trajectory_id), self.member), CommentSerializer)

    @extend_schema(
        operation_id="trajectory_comments_create",
        summary="Comment on a trajectory",
        request=NewCommentSerializer,
        responses={201: CommentSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request, trajectory_id: UUID) -> Response:
        trajectory = self._trajectory(trajectory_id)
        serializer = NewCommentSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            comment = actions.comment_on(trajectory=trajectory, by=self.member, text=serializer.validated_data["text"])
        except Refusal as refusal:
            raise ValidationError({"text": [str(refusal)]}) from None
        return Response(CommentSerializer(comment).data, status=status.HTTP_201_CREATED)

    def _trajectory(self, trajectory_id: UUID) -> Trajectory:
        return get_object_or_404(Trajectory.objects.visible_to(self.member).only("id"), pk=trajectory_id)


class RemoveCommentView(MemberView):
    """POST /api/v1/comments/<id>/remove"""

    @extend_schema(
        operation_id="comment_remove",
        summary="Remove a comment of your own",
        request=None,
        responses={200: CommentSerializer, 409: OpenApiResponse(description="Somebody else wrote it.")},
    )
    def post(self, request: Request, comment_id: UUID) -> Response:
        comment = get_object_or_404(Comment.objects.visible_to(self.member).select_related("by"), pk=comment_id)
        answer = CommentSerializer(comment).data
        try:
            actions.remove_comment(comment=comment, by=self.member)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(answer)


class MentionsView(ListView):
    """GET /api/v1/mentions"""

    @extend_schema(
        operation_id="mentions_list",
        summary="List the comments that mention you and that you haven't marked as read, newest first",
        responses=MentionSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(queries.unread_mentions(self.member), MentionSerializer)


class ReadMentionView(MemberView):
    """POST /api/v1/mentions/<id>/read"""

    @extend_schema(
        operation_id="mention_read", summary="Mark a mention as read", request=None, responses={200: MentionSerializer}
    )
    def post(self, request: Request, mention_id: int) -> Response:
        mention: Any = get_object_or_404(queries.unread_mentions(self.member), pk=mention_id)
        actions.mark_read(mention=mention)
        mention.refresh_from_db(fields=["read_at"])
        return Response(MentionSerializer(mention).data)
