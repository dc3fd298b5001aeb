"""Pages of runs."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import etag, require_http_methods, require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest, whole_number
from apps.common.ids import parsed_id
from apps.common.pages import page_of
from apps.common.sorting import sorting_by
from apps.jobs import lifecycle
from apps.training.charts import charts_of
from apps.training.comparison import MAX_RUNS, settings_of
from apps.training.folders import RunFolder, folder_of, read_log
from apps.training.forms.runs import RunForm
from apps.training.kept_rollouts import NotSampled, open_sampled, sampled
from apps.training.launch import check_with_worker, launch_run, refuse_if_known
from apps.training.live import run_context
from apps.training.models import Run
from apps.training.plan import USUAL
from apps.training.presets import PRESETS, rules_kept
from apps.training.queries import RUN_COLUMNS, headway, lineage_of, run_for_page, runs_for_comparing, runs_for_list
from apps.training.refusals import LaunchRefused
from apps.training.remedies import RemedyRefused, resume_with_remedy
from apps.training.series import MAX_POINTS, metric_points, series_of, state_of, table_of

CHECK_PATIENCE_SECONDS = 5.0
CANDIDATES = 40
SERIES_STATE = ("id", "attempt", "events_seq", "step")


@require_safe
@at_least(Role.RESEARCHER)
def runs(request: HtmxRequest) -> HttpResponse:
    """The workspace's runs, newest first."""
    sorting = sorting_by(RUN_COLUMNS, request.GET.get("sort", ""))
    runs = runs_for_list(request.member)
    page = page_of(runs, cursor=request.GET.get("cursor", ""), order=sorting.fields, size=50)
    rows = [(run, headway(run)) for run in page]
    is_moving = any(run.is_active for run in page)
    context = {"page": page, "rows": rows, "is_moving": is_moving, "sorting": sorting}
    return render(request, "training/runs.html", context)


@require_safe
@at_least(Role.RESEARCHER)
def compare(request: HtmxRequest) -> HttpResponse:
    """Two to six runs side by side; with fewer, the page to choose them."""
    run_ids = [pk for text in request.GET.getlist("run") if (pk := parsed_id(text))]
    runs_by_id = {run.pk: run for run in runs_for_comparing(request.member).filter(pk__in=run_ids[: MAX_RUNS + 1])}
    chosen = [runs_by_id[pk] for pk in dict.fromkeys(run_ids) if pk in runs_by_id]
    problem = f"Choose at most {MAX_RUNS} training runs." if len(chosen) > MAX_RUNS else ""
    several = len(chosen) > 1 and not problem
    settings = settings_of(chosen) if several else []
    newest = list(runs_for_comparing(request.member).order_by("-id")[:CANDIDATES])
    context = {
        "runs": chosen if not problem else [],
        "sources": [{"name": run.name, "url": reverse("training:series", args=[run.pk])} for run in chosen],
        "problem": problem,
        "most": MAX_RUNS,
        "candidates": [*chosen, *(run for run in newest if run not in chosen)],
        "differing": [setting for setting in settings if setting.differs],
        "same": [setting for setting in settings if not setting.differs],
    }
    return render(request, "training/compare.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def new(request: HtmxRequest) -> HttpResponse:
    """Choose what to train, and launch it."""
    if request.method != "POST":
        chosen = request.GET.dict()
        form = RunForm(member=request.member, initial=chosen)
        if "algorithm" not in chosen and (version := form.chosen_version):
            form = RunForm(member=request.member, initial={**chosen, "algorithm": USUAL[version.row_type]})
        return _new_page(request, form)
    form = RunForm(request.POST, member=request.member)
    if not form.is_valid() or form.plan is None:
        return _new_page(request, form, status=422)
    try:
        refuse_if_known(form.plan, seconds=CHECK_PATIENCE_SECONDS)
        run = launch_run(plan=form.plan, by=request.user)
    except LaunchRefused as refusal:
        form.add_error(form.field_at(refusal.field), str(refusal))
        return _new_page(request, form, status=422)
    messages.success(request, f"{run.name} is queued.")
    return redirect("training:run", run.pk)


def _new_page(request: HtmxRequest, form: RunForm, status: int = 200) -> HttpResponse:
    return render(request, "training/new.html", {"form": form, "presets": PRESETS.values()}, status=status)


@require_POST
@at_least(Role.RESEARCHER)
def settings_for(request: HtmxRequest) -> HttpResponse:
    """The settings of the chosen algorithm, with the values entered so far and the preset's values as placeholders."""
    form = RunForm(member=request.member, initial=request.POST.dict())
    return render(request, "training/_settings.html", {"form": form})


@require_POST
@at_least(Role.RESEARCHER)
def check(request: HtmxRequest) -> HttpResponse:
    """What would happen if the form were submitted now: refusals, estimates, command."""
    form = RunForm(request.POST, member=request.member)
    if not form.is_valid() or form.plan is None:
        return render(request, "training/_check.html", {"form": form})
    plan = form.plan
    return render(
        request,
        "training/_check.html",
        {
            "form": form,
            "plan": plan,
            "check": check_with_worker(plan),
            "steps": plan.steps,
            "rules": rules_kept(plan.config),
            "command": RunFolder(Path(settings.RUNS_DIR) / "RUN").command_line,
        },
    )


@require_safe
def show(request: HtmxRequest, run_id: UUID) -> HttpResponse:
    """One run: its health, its curves, and its result."""
    run = get_object_or_404(run_for_page(request.member), pk=run_id)
    folder = folder_of(run.pk)
    context = {
        **run_context(run),
        "sampled_steps": sampled(run).steps,
        "log": read_log(folder, is_growing=run.is_active),
        "lineage": lineage_of(run),
        "command": folder.command_line,
        "config_text": json.dumps(run.config, indent=2),
    }
    return render(request, "training/run.html", context)


@fragment_of(lambda run_id, **_: reverse("training:run", args=[run_id]))
@require_safe
def live(request: HtmxRequest, run_id: UUID) -> HttpResponse:
    """Only the live parts, for pages that missed an update or can't open a websocket."""
    run = get_object_or_404(run_for_page(request.member), pk=run_id)
    return render(request, "training/_live.html", run_context(run))


@require_safe
def series(request: HtmxRequest, run_id: UUID) -> HttpResponseBase:
    """The curves as JSON: all of them, or with `?after=` only what's new after that step."""
    run = get_object_or_404(Run.objects.visible_to(request.member).only(*SERIES_STATE), pk=run_id)
    after = whole_number(request.GET.get("after"), otherwise=-1)

    @cache_control(private=True, no_cache=True)  # the browser caches it and revalidates
    @etag(lambda _: f'"{state_of(run, after=after)}"')
    def answer(_: HtmxRequest) -> HttpResponse:
        return JsonResponse(series_of(run, after=after))

    return answer(request)


@require_safe
def tables(request: HtmxRequest, run_id: UUID) -> HttpResponse:
    """The curves as tables, for screen readers and browsers without JavaScript."""
    run = get_object_or_404(Run.objects.visible_to(request.member).select_related("version"), pk=run_id)
    points = metric_points(run.pk, max_points=MAX_POINTS)
    charts = charts_of({name for point in points for name in point.means})
    shown = [(chart, list(table_of(chart, points))) for chart in charts]
    return render(request, "training/tables.html", {"run": run, "charts": shown, "most": MAX_POINTS})


@require_POST
def open_rollouts(request: HtmxRequest, run_id: UUID) -> HttpResponse:
    """Opens the rollouts behind a point of a curve in the list of trajectories."""
    run = get_object_or_404(Run.objects.visible_to(request.member), pk=run_id)
    try:
        tag = open_sampled(run=run, step=whole_number(request.POST.get("step"), otherwise=0), by=request.user)
    except NotSampled as refusal:
        messages.info(request, str(refusal))
        return redirect("training:run", run.pk)
    return redirect(f"{reverse('trajectories:list')}?{urlencode({'tag': tag})}")


@require_safe
def log(request: HtmxRequest, run_id: UUID) -> JsonResponse:
    """The child process's output from a byte offset on."""
    run = get_object_or_404(Run.objects.visible_to(request.member).only("state"), pk=run_id)
    after = whole_number(request.GET.get("after"), otherwise=0)
    part = read_log(folder_of(run.pk), after=after, is_growing=run.is_active)
    return JsonResponse({"text": part.text, "end": part.end, "skipped": part.skipped})


@require_POST
def cancel(request: HtmxRequest, run_id: UUID) -> HttpResponse:
    """Request cancellation."""
    run = get_object_or_404(Run.objects.visible_to(request.member), pk=run_id)
    try:
        lifecycle.cancel(run, by=request.user)
    except lifecycle.NotActive as refusal:
        messages.info(request, str(refusal))
    return redirect("training:run", run.pk)


@require_POST
def resume(request: HtmxRequest, run_id: UUID) -> HttpResponse:
    """Resume from the last checkpoint; with `alarm`, with the setting that the alarm recommends."""
    run = get_object_or_404(Run.objects.visible_to(request.member), pk=run_id)
    try:
        if "alarm" in request.POST:
            alarm = get_object_or_404(
                run.events.filter(kind="alarm"), pk=whole_number(request.POST["alarm"], otherwise=0)
            )
            resume_with_remedy(run=run, alarm=alarm, by=request.user)
        else:
            lifecycle.resume(run, by=request.user)
    except (RemedyRefused, lifecycle.NotResumable) as refusal:
        messages.error(request, str(refusal))
    return redirect("training:run", run.pk)
