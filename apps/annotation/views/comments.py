"""Comments on a trajectory, for its page; and marking mentions as read."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.annotation.comments import actions, queries
from apps.annotation.models import Comment
from apps.annotation.refusals import Refusal
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.trajectories.models import Trajectory


@fragment_of(lambda trajectory_id, **_: reverse("trajectories:detail", args=[trajectory_id]) + "#comments")
@at_least(Role.REVIEWER)
@require_safe
def comments_of(request: HtmxRequest, trajectory_id: UUID) -> HttpResponse:
    """The comments on a trajectory, with a form for a new one."""
    return _answer(request, _trajectory(request, trajectory_id))


@at_least(Role.REVIEWER)
@require_POST
def comment(request: HtmxRequest, trajectory_id: UUID) -> HttpResponse:
    """Add a comment to a trajectory."""
    trajectory = _trajectory(request, trajectory_id)
    try:
        actions.comment_on(trajectory=trajectory, by=request.member, text=request.POST.get("text", ""))
    except Refusal as refusal:
        return _answer(request, trajectory, problem=str(refusal))
    return _answer(request, trajectory)


@require_POST
def remove_comment(request: HtmxRequest, comment_id: UUID) -> HttpResponse:
    """Remove one's own comment."""
    comment = get_object_or_404(
        Comment.objects.visible_to(request.member).select_related("trajectory"), pk=comment_id, by=request.user
    )
    actions.remove_comment(comment=comment, by=request.member)
    return _answer(request, comment.trajectory) if request.member.is_reviewer else redirect("home")


@require_POST
def read_mention(request: HtmxRequest, mention_id: int) -> HttpResponse:
    """Remove a mention from one's home page."""
    mention = get_object_or_404(queries.unread_mentions(request.member), pk=mention_id)
    actions.mark_read(mention=mention)
    return redirect("home")


def _trajectory(request: HtmxRequest, trajectory_id: UUID) -> Trajectory:
    return get_object_or_404(Trajectory.objects.visible_to(request.member).only("id"), pk=trajectory_id)


def _answer(request: HtmxRequest, trajectory: Trajectory, problem: str = "") -> HttpResponse:
    if not request.htmx:
        if problem:
            messages.error(request, problem)
        return redirect(reverse("trajectories:detail", args=[trajectory.pk]) + "#comments")
    context = {
        "run": trajectory.pk,
        "comments": list(queries.comments_on(trajectory, request.member)[: queries.SHOWN])[::-1],
        "people": queries.people_to_mention(request.member),
        "problem": problem,
    }
    return render(request, "annotation/_comments.html", context, status=422 if problem else 200)
