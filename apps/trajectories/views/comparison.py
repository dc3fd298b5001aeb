"""Two trajectories of one task side by side, aligned by their actions. Not blind: for members who may see everything."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.common.fair_share import enter_long
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.trajectories import queries
from apps.trajectories.comparison import side_by_side
from apps.trajectories.models import Trajectory


@require_safe
def compare(request: HtmxRequest, left_id: UUID, right_id: UUID) -> HttpResponse:
    """Both trajectories, row by row, opened at the first differing row. `cursor` is a row on the requested page."""
    left, right = _both(request, left_id, right_id)
    enter_long(request, steps=left.step_count + right.step_count)
    comparison = side_by_side.compare(left, right)
    cursor = request.GET.get("cursor", "")
    page = comparison.page(int(cursor) if cursor.isdecimal() and len(cursor) < 9 else None)
    first = comparison.first_difference if comparison.first_difference in page.rows else None
    context = {
        "left": left,
        "right": right,
        "comparison": comparison,
        "page": page,
        "opened": side_by_side.open_rows(left, right, [first.name], _part_url) if first else [],
        "others": [other for other in queries.other_trajectories(left) if other.pk != right.pk],
    }
    return render(request, "trajectories/compare.html", context)


@fragment_of(lambda left_id, right_id, **_: reverse("trajectories:compare", args=[left_id, right_id]))
@require_safe
def compare_rows(request: HtmxRequest, left_id: UUID, right_id: UUID) -> HttpResponse:
    """Opened rows of the comparison; `row` names one ("3-5": step 3 beside step 5) and may be repeated."""
    left, right = _both(request, left_id, right_id)
    try:
        opened = side_by_side.open_rows(left, right, request.GET.getlist("row")[: side_by_side.MAX_ROWS], _part_url)
    except LookupError as error:
        raise Http404(f"There is no row {error}.") from None
    return render(request, "trajectories/_compare_rows.html", {"left": left, "right": right, "opened": opened})


def _both(request: HtmxRequest, left_id: UUID, right_id: UUID) -> tuple[Trajectory, Trajectory]:
    trajectories = queries.replayable(request.member)
    return get_object_or_404(trajectories, pk=left_id), get_object_or_404(trajectories, pk=right_id)


def _part_url(trajectory: Trajectory, index: int) -> str:
    return reverse("trajectories:part", args=[trajectory.pk, index])
