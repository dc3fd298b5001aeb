"""List pages: trajectories, tasks, and all trajectories of a task."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.common.query_time_limit import TooSlow
from apps.common.sorting import sorting_by
from apps.trajectories import lists, view_names
from apps.trajectories.content_responses import answer_content
from apps.trajectories.facets import facets_of
from apps.trajectories.filter_chips import chips_of
from apps.trajectories.filters import BadFilter, Filters
from apps.trajectories.models import SavedView, Task, Trajectory


@require_safe
@at_least(Role.REVIEWER)
def trajectories(request: HtmxRequest) -> HttpResponse:
    """Trajectories, newest first, with any filters."""
    filters, problem = Filters.read(request.GET), ""
    visible = Trajectory.objects.visible_to(request.member)
    try:
        matches = filters.apply(visible, workspace_id=request.member.workspace_id)
    except BadFilter as error:
        matches, problem = visible.none(), str(error)
    sorting = sorting_by(lists.TRAJECTORY_COLUMNS, request.GET.get("sort", ""))
    views = list(SavedView.objects.visible_to(request.member).order_by("name"))
    context = {
        "page": page_of(
            matches.for_list(), cursor=request.GET.get("cursor", ""), order=sorting.fields, size=lists.PAGE
        ),
        "sorting": sorting,
        "chips": chips_of(request.member, filters),
        "matches": lists.capped_count(matches),
        "filters": filters,
        "problem": problem,
        "choices": lists.choices(request.member, filters),
        "views": views,
        "is_saved": any(view.query == filters.query for view in views),
    }
    template = (
        "trajectories/_list.html"
        if request.htmx and not request.htmx.history_restore_request
        else "trajectories/list.html"
    )
    return render(request, template, context, status=422 if problem else 200)


@fragment_of(lambda: reverse("trajectories:list"))
@require_safe
@at_least(Role.REVIEWER)
def facets(request: HtmxRequest) -> HttpResponse:
    """The facets of the filtered list."""
    filters = Filters.read(request.GET)
    visible = Trajectory.objects.visible_to(request.member)
    try:
        matches = filters.apply(visible, workspace_id=request.member.workspace_id, reads_thousands=True)
        counted = facets_of(request.member, matches, filters)
    except BadFilter as error:
        return render(request, "trajectories/_facets.html", {"problem": str(error)})
    except TooSlow:
        return render(
            request,
            "trajectories/_facets.html",
            {"problem": "Counting takes too long here. Choose another filter first."},
        )
    sorting = sorting_by(lists.TRAJECTORY_COLUMNS, request.GET.get("sort", ""))
    return render(request, "trajectories/_facets.html", {"counted": counted, "sorting": sorting})


@require_POST
@at_least(Role.REVIEWER)
def save_view(request: HtmxRequest) -> HttpResponse:
    """Save the list's filters under a name, for the whole workspace."""
    filters = Filters.read(request.POST.get("query", ""))
    try:
        view_names.save_view(
            workspace=request.member.workspace, name=request.POST.get("name", "")[:60], filters=filters, by=request.user
        )
    except view_names.ViewRefused as refusal:
        messages.error(request, str(refusal))
    return redirect(f"{reverse('trajectories:list')}?{filters.query}")


@require_POST
@at_least(Role.REVIEWER)
def remove_view(request: HtmxRequest, view_id: UUID) -> HttpResponse:
    """Delete a saved view; its filters stay on the page."""
    view = get_object_or_404(SavedView.objects.visible_to(request.member), pk=view_id)
    view_names.remove_view(view=view)
    return redirect(f"{reverse('trajectories:list')}?{view.query}")


@require_safe
@at_least(Role.REVIEWER)
def tasks(request: HtmxRequest) -> HttpResponse:
    """Tasks, newest first, with how their trajectories ended."""
    query = request.GET.get("q", "").strip()[:300]
    sorting = sorting_by(lists.TASK_COLUMNS, request.GET.get("sort", ""))
    rows = lists.tasks(request.member, query)
    page = page_of(rows, cursor=request.GET.get("cursor", ""), order=sorting.fields, size=lists.PAGE)
    context = {
        "page": page,
        "rows": lists.with_outcomes(page.rows),
        "q": query,
        "sorting": sorting,
    }
    template = (
        "trajectories/_tasks.html"
        if request.htmx and not request.htmx.history_restore_request
        else "trajectories/tasks.html"
    )
    return render(request, template, context)


@require_safe
def task(request: HtmxRequest, task_id: UUID) -> HttpResponse:
    """One task: its instruction, and all its trajectories."""
    task = get_object_or_404(Task.objects.visible_to(request.member), pk=task_id)
    trajectories = Trajectory.objects.visible_to(request.member).filter(task=task)
    context = {
        "task": task,
        "outcomes": lists.outcomes_of(task),
        "by_policy": lists.by_policy(task),
        "page": page_of(trajectories.for_list(), cursor=request.GET.get("cursor", ""), size=lists.PAGE),
        "details": lists.task_details(task, reverse("trajectories:task_part", args=[task.pk])),
    }
    return render(request, "trajectories/task.html", context)


@require_safe
def task_part(request: HtmxRequest, task_id: UUID) -> HttpResponse:
    """The rest of a long initial state or success check; see `answer_content`."""
    task = get_object_or_404(Task.objects.visible_to(request.member), pk=task_id)
    return answer_content(
        request,
        lambda name: lists.task_detail(task, name),
        url=reverse("trajectories:task_part", args=[task.pk]),
        back=reverse("trajectories:task", args=[task.pk]),
        name=str(task.pk),
        whole="the task",
    )
