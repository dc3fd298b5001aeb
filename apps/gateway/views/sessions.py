"""Pages of sessions: the list, and one session with live updates."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.common.sorting import by_age, sorting_by
from apps.gateway.live import state_of
from apps.gateway.models import Session
from apps.gateway.queries import progress_context, record_of, sessions_for_list
from apps.trajectories import unsaved
from apps.trajectories.content_responses import answer_for

SESSION_COLUMNS = (by_age("Opened"),)
COMMAND = """curl {url} \\
  --header "Authorization: Bearer $RETRACE_TOKEN" \\
  --header "Content-Type: application/json" \\
  --data '{{"policy": "NAME", "task": {{"instruction": "…"}}}}'"""
"""Example that opens a session, to be completed with a policy and task."""


@require_safe
@at_least(Role.RESEARCHER)
def sessions(request: HtmxRequest) -> HttpResponse:
    """All sessions, newest first, and those that begin meanwhile; without one, how to connect an agent."""
    sorting = sorting_by(SESSION_COLUMNS, request.GET.get("sort", ""))
    rows = sessions_for_list(request.member).of_policies()
    cursor = request.GET.get("cursor", "")
    page = page_of(rows, cursor=cursor, order=sorting.fields, size=30)
    command = COMMAND.format(url=request.build_absolute_uri("/api/v1/sessions"))
    context = {"page": page, "command": command, "sorting": sorting, "is_newest": not cursor}
    return render(request, "gateway/sessions.html", context)


@require_safe
def session(request: HtmxRequest, session_id: UUID) -> HttpResponse:
    """The steps so far; new ones are added live."""
    session = _find(request, session_id)
    return render(request, "gateway/session.html", {**progress_context(session), "steps": _views(session, 0)})


@fragment_of(lambda session_id, **_: reverse("gateway:session", args=[session_id]))
@require_safe
def session_state(request: HtmxRequest, session_id: UUID) -> HttpResponse:
    """The session's progress, for pages that poll."""
    return HttpResponse(state_of(_find(request, session_id)))


@fragment_of(lambda session_id, **_: reverse("gateway:session", args=[session_id]))
@require_safe
def session_steps(request: HtmxRequest, session_id: UUID) -> HttpResponse:
    """The steps from index `from` on, expanded."""
    first = request.GET.get("from", "")
    if not first.isdecimal() or len(first) > 9:
        raise Http404(f"`from` is {first!r}; expected the index of a step.")
    views = _views(_find(request, session_id), int(first))
    return render(request, "trajectories/_episode_steps.html", {"steps": views})


@require_safe
def session_part(request: HtmxRequest, session_id: UUID, index: int) -> HttpResponse:
    """More of a long value in a step."""
    session = _find(request, session_id)
    steps = unsaved.steps_of(record_of(session))
    if index >= len(steps):
        raise Http404("There is no such step.")
    after = steps[index + 1].context if index + 1 < len(steps) else []
    back = reverse("gateway:session", args=[session.pk])
    return answer_for(request, steps[index], after, url=f"{_parts(session)}{index}/", back=back, name=str(session.pk))


def _find(request: HtmxRequest, session_id: UUID) -> Session:
    return get_object_or_404(
        Session.objects.visible_to(request.member).select_related("policy", "split", "drawn"), pk=session_id
    )


def _views(session: Session, first: int) -> list[unsaved.LiveStep]:
    record = record_of(session)
    return unsaved.views_from(unsaved.steps_of(record), [], first, _parts(session), record.info["calls"])


def _parts(session: Session) -> str:
    """URL prefix for parts of its steps; the step's index follows."""
    return reverse("gateway:session_part", args=[session.pk, 0]).removesuffix("0/")
