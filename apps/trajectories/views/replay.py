"""Pages of one trajectory: the replay, and the parts that it fetches on demand."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.common.query_time_limit import TooSlow
from apps.trajectories import queries, text_search
from apps.trajectories.content_responses import SEALED, answer_part
from apps.trajectories.imports.preparation import unpack_original
from apps.trajectories.minimap import minimap
from apps.trajectories.models import Original, Trajectory
from apps.trajectories.rendering.heads import StepHead
from apps.trajectories.rendering.kinds import KINDS
from apps.trajectories.rendering.steps import StepView, step_views

OUTLINE_ROWS = 40

# Pages ask for the version of the trajectory that they show (`v`), so answers may be cached for a while; `private`, because access is personal.
kept_a_while = cache_control(private=True, max_age=300)


@require_safe
def replay(request: HtmxRequest, trajectory_id: UUID, number: int = 1) -> HttpResponse:
    """The whole page, opened at step `number`."""
    trajectory = _find(request, trajectory_id)
    heads = queries.heads_of(trajectory)
    index = min(max(number, 1), max(len(heads), 1)) - 1
    steps = _views(trajectory, index - 1, index + queries.WINDOW - 2) if heads else []
    first_row = max(0, min(index - 10, len(heads) - OUTLINE_ROWS))
    context = {
        "trajectory": trajectory,
        "steps": steps,
        "current": index,
        "number": index + 1,
        "earlier": max(1, index + 2 - queries.WINDOW) if index > 1 else 0,
        "later": index + queries.WINDOW if index + queries.WINDOW <= len(heads) else 0,
        "rows": heads[first_row : first_row + OUTLINE_ROWS],
        "map": minimap(heads, request.GET.get("height", "")),
        "kinds": _kinds(heads),
        "errors": sum(head.is_error for head in heads),
        "rewards": sum(bool(head.reward) for head in heads),
        "tools": sum(bool(head.tool) for head in heads),
        "others": queries.other_trajectories(trajectory),
        "branches": trajectory.branches.for_list().order_by("-pk")[:20],
        "has_original": queries.has_original(trajectory),
    }
    return render(request, "trajectories/replay.html", context)


@require_safe
@kept_a_while
def outline(request: HtmxRequest, trajectory_id: UUID) -> JsonResponse:
    """Every step in a line, for the page's own script."""
    heads = queries.heads_of(_find(request, trajectory_id))
    return JsonResponse(
        {
            "kinds": [{"slug": kind.slug, "letter": kind.letter, "label": kind.label} for kind in KINDS],
            "steps": [
                [KINDS.index(h.kind), h.tool, h.headline, h.result, int(h.is_error), h.reward, h.seconds, h.lines]
                for h in heads
            ],
        }
    )


@fragment_of(lambda trajectory_id, **_: reverse("trajectories:detail", args=[trajectory_id]))
@require_safe
@kept_a_while
def steps(request: HtmxRequest, trajectory_id: UUID) -> HttpResponse:
    """Steps `from` to `to` (inclusive, numbered from 0), opened."""
    trajectory = _find(request, trajectory_id)
    first, last = _number(request, "from"), _number(request, "to")
    return render(
        request, "trajectories/_steps.html", {"trajectory": trajectory, "steps": _views(trajectory, first, last)}
    )


@require_safe
@kept_a_while
def part(request: HtmxRequest, trajectory_id: UUID, index: int) -> HttpResponse:
    """The rest of long content in a step, or all of it as a download; see `answer_part`."""
    trajectory = _find(request, trajectory_id)
    back = reverse("trajectories:step", args=[trajectory.pk, index + 1])
    return answer_part(request, trajectory, index, url=_part_url(trajectory, index), back=back, name=str(trajectory.pk))


@fragment_of(lambda trajectory_id, **_: reverse("trajectories:detail", args=[trajectory_id]))
@require_safe
def map_of(request: HtmxRequest, trajectory_id: UUID) -> HttpResponse:
    """The minimap by another measure."""
    trajectory = _find(request, trajectory_id)
    picture = minimap(queries.heads_of(trajectory), request.GET.get("height", ""))
    return render(request, "trajectories/_minimap.html", {"trajectory": trajectory, "map": picture})


@require_safe
def search(request: HtmxRequest, trajectory_id: UUID) -> JsonResponse:
    """The steps that contain `q`, with excerpts."""
    trajectory = _find(request, trajectory_id)
    try:
        matches = text_search.find_in(trajectory, request.GET.get("q", "")[:200])
    except TooSlow:
        return JsonResponse({"problem": "Searching for these words takes too long here. Try others."}, status=503)
    return JsonResponse({"found": matches, "is_all": len(matches) < text_search.MAX_MATCHES})


@require_safe
def original(request: HtmxRequest, trajectory_id: UUID) -> HttpResponse:
    """The record as imported, as a download: never displayed, whatever it contains."""
    trajectory = _find(request, trajectory_id)
    original = get_object_or_404(Original, pk=trajectory.pk)
    response = HttpResponse(unpack_original(original.body), content_type="application/octet-stream")
    response["Content-Disposition"] = f'attachment; filename="{trajectory.pk}.json"'
    response["Content-Security-Policy"] = SEALED
    return response


def _find(request: HtmxRequest, trajectory_id: UUID) -> Trajectory:
    return get_object_or_404(queries.replayable(request.member), pk=trajectory_id)


def _views(trajectory: Trajectory, first: int, last: int) -> list[StepView]:
    window = queries.window_of(trajectory, first, last)
    return step_views(
        window.steps,
        previous_kind=window.previous_kind,
        following=window.following,
        is_end=window.is_end,
        part_url=lambda index: _part_url(trajectory, index),
    )


def _part_url(trajectory: Trajectory, index: int) -> str:
    return reverse("trajectories:part", args=[trajectory.pk, index])


def _number(request: HtmxRequest, name: str) -> int:
    text = request.GET.get(name, "")
    if not text.isdecimal() or len(text) > 9:
        raise Http404(f"`{name}` is {text!r}; expected the index of a step.")
    return int(text)


def _kinds(heads: list[StepHead]) -> list[dict[str, Any]]:
    """The kinds that occur, for the filter."""
    counts = {kind: sum(head.kind == kind for head in heads) for kind in KINDS}
    return [{"kind": kind, "count": count} for kind, count in counts.items() if count]
