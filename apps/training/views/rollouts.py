"""Pages of rollouts: a policy attempting tasks."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.common.live import best_effort
from apps.jobs import lifecycle
from apps.training.folders import folder_of
from apps.training.forms.rollouts import RolloutForm, RunnerRolloutForm
from apps.training.live import rollouts_context, show_rollouts
from apps.training.runner_rollouts import USUAL_COUNT, start_for_runners
from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts.rollout_batches import RolloutRefused, start_rollouts


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def new(request: HtmxRequest) -> HttpResponse:
    """Choose a policy and tasks, and start."""
    if request.method != "POST":
        form = RolloutForm(member=request.member, initial={"policy": request.GET.get("policy")})
        return render(request, "training/new_rollouts.html", {"form": form})
    form = RolloutForm(request.POST, member=request.member)
    if form.is_valid():
        fields = form.cleaned_data
        try:
            batch = start_rollouts(
                workspace=request.member.workspace,
                policy=fields["policy"],
                environment=fields["environment"],
                tasks={name: fields[name] for name in ("split", "levels", "count", "seed")},
                samples=fields["samples"],
                seed=fields["seed"],
                sampling={"temperature": fields["temperature"]},
                budget={"steps": fields["steps"]} if fields["steps"] else None,
                tool_calls=fields["tool_calls"] or "native",
                by=request.user,
            )
            return redirect("training:rollouts", batch.pk)
        except RolloutRefused as refusal:
            form.add_error(None, str(refusal))
    return render(request, "training/new_rollouts.html", {"form": form}, status=422)


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def new_of_runners(request: HtmxRequest) -> HttpResponse:
    """Choose the policy that answers runners, and the tasks."""
    if request.method != "POST":
        form = RunnerRolloutForm(member=request.member, initial={"policy": request.GET.get("policy")})
        return render(request, "training/new_runner_rollouts.html", {"form": form})
    form = RunnerRolloutForm(request.POST, member=request.member)
    if form.is_valid():
        fields = form.cleaned_data
        try:
            batch = start_for_runners(
                member=request.member,
                policy=fields["policy"],
                environment=fields["environment"],
                listed=fields["tasks"],
                split=fields["split"] or "held_out",
                count=fields["count"] or USUAL_COUNT,
                seed=fields["seed"] or 0,
                samples=fields["samples"],
                max_calls=fields["steps"],
                lease_seconds=fields["lease_seconds"],
                deadline_seconds=round(fields["deadline_hours"] * 3600),
            )
            return redirect("training:rollouts", batch.pk)
        except RolloutRefused as refusal:
            form.add_error(None, str(refusal))
    return render(request, "training/new_runner_rollouts.html", {"form": form}, status=422)


@require_safe
def show(request: HtmxRequest, batch_id: UUID) -> HttpResponse:
    """One batch: its progress and its trajectories."""
    batch = _find(request, batch_id)
    return render(
        request, "training/rollouts.html", {**rollouts_context(batch), "command": folder_of(batch.pk).command_line}
    )


@fragment_of(lambda batch_id, **_: reverse("training:rollouts", args=[batch_id]))
@require_safe
def live(request: HtmxRequest, batch_id: UUID) -> HttpResponse:
    """Only the live part."""
    return render(request, "training/_rollouts_live.html", rollouts_context(_find(request, batch_id)))


@require_POST
def cancel(request: HtmxRequest, batch_id: UUID) -> HttpResponse:
    """Cancel the batch; its finished trajectories stay."""
    batch = _find(request, batch_id)
    try:
        lifecycle.cancel(batch, by=request.user)
        _update_pages(batch)
    except lifecycle.NotActive as refusal:
        messages.info(request, str(refusal))
    return redirect("training:rollouts", batch.pk)


@require_POST
def resume(request: HtmxRequest, batch_id: UUID) -> HttpResponse:
    """Resume with the tasks that are left."""
    batch = _find(request, batch_id)
    try:
        lifecycle.resume(batch, by=request.user)
        _update_pages(batch)
    except lifecycle.NotResumable as refusal:
        messages.error(request, str(refusal))
    return redirect("training:rollouts", batch.pk)


def _update_pages(batch: RolloutBatch) -> None:
    with best_effort(batch.pk):
        show_rollouts(batch.pk)


def _find(request: HtmxRequest, batch_id: UUID) -> RolloutBatch:
    return get_object_or_404(
        RolloutBatch.objects.visible_to(request.member).select_related("policy", "created_by"), pk=batch_id
    )
