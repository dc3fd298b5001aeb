"""Pages of experiments: which policy is better, with what certainty, and promotion of the winner."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render, resolve_url
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.annotation.models import Queue
from apps.arena import lifecycle
from apps.arena.forms import ExperimentForm, LiveExperimentForm, PromotionForm, ReasonForm, RecordedExperimentForm
from apps.arena.live_feed import CantFeed, start_live_experiment
from apps.arena.models import Experiment
from apps.arena.queries import EXPERIMENT_COLUMNS, Standing, figures_of
from apps.arena.recorded import NothingInCommon, start_recorded_experiment
from apps.arena.stopping_rule import Outcome
from apps.arena.win_rates import Interval
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest, next_url
from apps.common.pages import page_of
from apps.common.sorting import sorting_by
from apps.common.text_encoding import is_storable
from apps.jobs.models import JobState
from apps.policies import promotions
from apps.trajectories.rollouts.rollout_batches import RolloutRefused

MOVING = (Experiment.State.ROLLING_OUT, Experiment.State.LABELING)


def _experiments(request: HtmxRequest) -> Any:
    related = (
        "policy_a",
        "policy_b",
        "queue",
        "rollouts_a__policy",
        "rollouts_b__policy",
        "workspace",
        "created_by",
        "split",
    )
    return Experiment.objects.visible_to(request.member).select_related(*related)


@require_safe
@at_least(Role.RESEARCHER)
def experiments(request: HtmxRequest) -> HttpResponse:
    """All experiments, newest first."""
    sorting = sorting_by(EXPERIMENT_COLUMNS, request.GET.get("sort", ""))
    page = page_of(_experiments(request), cursor=request.GET.get("cursor", ""), order=sorting.fields, size=30)
    is_moving = any(experiment.state in MOVING for experiment in page.rows)
    return render(request, "arena/experiments.html", {"page": page, "is_moving": is_moving, "sorting": sorting})


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def new_experiment(request: HtmxRequest) -> HttpResponse:
    """Choose two policies and the plan, and start."""
    initial = {"policy_a": request.GET.get("a"), "policy_b": request.GET.get("b")}
    form = ExperimentForm(request.POST or None, member=request.member, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            experiment = lifecycle.start_experiment(workspace=request.member.workspace, by=request.user, **form.plan)
            return redirect("arena:experiment", experiment.pk)
        except RolloutRefused as refusal:
            form.add_error(None, str(refusal))
    return render(request, "arena/new_experiment.html", {"form": form}, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def new_recorded_experiment(request: HtmxRequest) -> HttpResponse:
    """Choose two policies that have attempted the same tasks, and start."""
    initial = {
        "policy_a": request.GET.get("a"),
        "policy_b": request.GET.get("b"),
        "environment": request.GET.get("environment"),
    }
    form = RecordedExperimentForm(request.POST or None, member=request.member, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            experiment = start_recorded_experiment(workspace=request.member.workspace, by=request.user, **form.plan)
            return redirect("arena:experiment", experiment.pk)
        except NothingInCommon as refusal:
            form.add_error(None, str(refusal))
    return render(request, "arena/new_recorded.html", {"form": form}, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def new_live_experiment(request: HtmxRequest) -> HttpResponse:
    """Choose a traffic split, and start."""
    form = LiveExperimentForm(request.POST or None, member=request.member, initial={"split": request.GET.get("split")})
    if request.method == "POST" and form.is_valid():
        try:
            experiment = start_live_experiment(workspace=request.member.workspace, by=request.user, **form.plan)
            return redirect("arena:experiment", experiment.pk)
        except CantFeed as refusal:
            form.add_error(refusal.field, str(refusal))
    return render(request, "arena/new_live.html", {"form": form}, status=422 if form.errors else 200)


@require_safe
@at_least(Role.RESEARCHER)
def experiment(request: HtmxRequest, experiment_id: UUID) -> HttpResponse:
    """One experiment: its figures, and the available actions."""
    experiment = get_object_or_404(_experiments(request), pk=experiment_id)
    return render(request, "arena/experiment.html", _experiment_context(experiment))


@fragment_of(lambda experiment_id, **_: reverse("arena:experiment", args=[experiment_id]))
@require_safe
@at_least(Role.RESEARCHER)
def experiment_standing(request: HtmxRequest, experiment_id: UUID) -> HttpResponse:
    """The part of the page that updates as trajectories and judgments arrive. The actions are included only when they change.

    Replacing them on every poll would remove the form behind an open confirmation dialog.
    """
    experiment = get_object_or_404(_experiments(request), pk=experiment_id)
    context = _experiment_context(experiment)
    context["oob"] = request.GET.get("shown") != context["shown"]
    return render(request, "arena/_standing.html", context)


def _experiment_context(experiment: Experiment) -> dict[str, Any]:
    figures = figures_of(experiment)
    batches = [batch for batch in (experiment.rollouts_a, experiment.rollouts_b) if batch]
    winner = {Outcome.A_BETTER: experiment.policy_a, Outcome.B_BETTER: experiment.policy_b}.get(figures.outcome)
    champions = promotions.champions(workspace=experiment.workspace, environment=experiment.environment)
    champion = champions[-1] if champions else None
    open_queue = experiment.queue if experiment.queue and experiment.queue.state == Queue.State.OPEN else None
    return {
        "experiment": experiment,
        "figures": figures,
        "winner": winner,
        "champion": champion,
        "split_compared": lifecycle.split_compared(experiment),
        "can_roll_back": len(champions) > 1,
        "difference_words": _difference_text(figures.success_difference),
        "judged_words": f"{figures.items_judged} of {figures.items}",
        "batches": batches,
        "left_out": _left_out(experiment, figures),
        "held_up": _held_up(experiment),
        "stopped_batches": [batch for batch in batches if batch.state in (JobState.FAILED, JobState.CANCELLED)],
        "moving": experiment.state in MOVING,
        "open_queue": open_queue,
        "shown": "-".join(str(instance.pk) if instance else "" for instance in (open_queue, winner, champion))
        + f"-{experiment.state}",
        "promotion_form": PromotionForm(experiment=experiment, initial={"policy": winner, "reason": ""}),
    }


def _left_out(experiment: Experiment, figures: Standing) -> str:
    """A warning about tasks that only one policy finished: a policy that fails on the hard tasks is compared on the easy ones only."""
    if experiment.state not in (Experiment.State.LABELING, Experiment.State.STOPPED) or experiment.rollouts_a is None:
        return ""
    played = experiment.rollouts_a.total // experiment.plan["samples"]
    missing = played - figures.tasks_planned
    if missing <= 0:
        return ""
    predicate = "is not compared: on it" if missing == 1 else "are not compared: on them"
    return f"{missing} of {played} tasks {predicate} a policy took no steps, so there was nothing to judge."


def _held_up(experiment: Experiment) -> str:
    """Why an experiment that waits for judgments gets none."""
    if experiment.state != Experiment.State.LABELING:
        return ""
    if experiment.queue and experiment.queue.state != Queue.State.OPEN:
        state = experiment.queue.get_state_display().lower()
        return f"Its queue is {state}, so nobody is given pairs to judge. Resume the queue, or stop the experiment."
    if experiment.is_live and experiment.split and not experiment.split.is_on:
        return f"{experiment.split} is off, so no new sessions take part. Turn it on, or stop the experiment."
    return ""


def _difference_text(difference: Interval) -> str:
    """ "A minus B is +12 points (+2 to +22), …", or "" if no task has outcomes of both."""
    if difference.estimate is None:
        return ""
    points = [
        f"{round(100 * value):+d}".replace("-", "−") for value in (difference.estimate, difference.low, difference.high)
    ]
    return (
        f"By the environment's check, A minus B is {points[0]} points ({points[1]} to {points[2]}), "
        f"paired over {difference.n} task{'' if difference.n == 1 else 's'}."
    )


@require_POST
@at_least(Role.RESEARCHER)
def stop(request: HtmxRequest, experiment_id: UUID) -> HttpResponse:
    """End it before its rule does."""
    experiment = get_object_or_404(_experiments(request), pk=experiment_id)
    try:
        lifecycle.stop_experiment(experiment=experiment, by=request.user)
    except lifecycle.NotRunning as refusal:
        messages.error(request, str(refusal))
    return redirect("arena:experiment", experiment.pk)


@require_POST
@at_least(Role.RESEARCHER)
def promote(request: HtmxRequest, experiment_id: UUID) -> HttpResponse:
    """Make one of the two policies the champion, on the current evidence."""
    experiment = get_object_or_404(_experiments(request), pk=experiment_id)
    form = PromotionForm(request.POST, experiment=experiment)
    if not form.is_valid():
        return render(
            request, "arena/experiment.html", {**_experiment_context(experiment), "promotion_form": form}, status=422
        )
    ends = experiment.is_live and experiment.state == Experiment.State.LABELING
    try:
        split = lifecycle.promote_from(
            experiment=experiment,
            policy=form.cleaned_data["policy"],
            by=request.user,
            reason=form.cleaned_data["reason"],
        )
    except promotions.AlreadyChampion as refusal:
        messages.info(request, str(refusal))
    else:
        goes_on = f" It answers every new session of {split}." if split else ""
        goes_on += " The live experiment has ended." if ends else ""
        messages.success(request, f"{form.cleaned_data['policy']} is champion of {experiment.environment}.{goes_on}")
    return redirect("arena:experiment", experiment.pk)


@require_POST
@at_least(Role.RESEARCHER)
def roll_back(request: HtmxRequest, environment: str) -> HttpResponse:
    """Restore the previous champion."""
    if not is_storable(environment):
        raise Http404
    form = ReasonForm(request.POST)
    reason = form.cleaned_data["reason"] if form.is_valid() else "Rolled back without a stated reason."
    try:
        promotion = promotions.roll_back(
            workspace=request.member.workspace,
            environment=environment,
            by=request.user,
            reason=reason,
            seen=request.POST.get("champion", ""),
        )
    except (promotions.NothingToRollBackTo, promotions.ChampionChanged) as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, f"{promotion.policy} is champion of {environment} again.")
    return redirect(next_url(request, otherwise=resolve_url("policies:list")))
