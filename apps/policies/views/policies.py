"""Pages of policies."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.accounts.recent_sign_in import needs_recent_sign_in
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.common.sorting import sorting_by
from apps.policies.aliases import local_model_id
from apps.policies.archival import IsChampion, archive_policy, restore_policy
from apps.policies.forms import PolicyForm
from apps.policies.held_out_success import held_out_success
from apps.policies.locations import weights_of
from apps.policies.models import Policy, Promotion
from apps.policies.queries import (
    POLICY_COLUMNS,
    SHOWN_ROLLOUTS,
    champions_of,
    policies_for_list,
    policy_for_page,
    publications_of,
    trajectories_by_environment,
)
from apps.policies.registration import PolicyRefused
from apps.policies.reports import calibration_of, report_rows


@require_safe
@at_least(Role.RESEARCHER)
def policies(request: HtmxRequest) -> HttpResponse:
    """The policies with their champions, descent, and success on held-out tasks."""
    return _list(request, is_archived=False)


@require_safe
@at_least(Role.RESEARCHER)
def archived(request: HtmxRequest) -> HttpResponse:
    """The archived policies."""
    return _list(request, is_archived=True)


def _list(request: HtmxRequest, *, is_archived: bool) -> HttpResponse:
    sorting = sorting_by(POLICY_COLUMNS, request.GET.get("sort", ""))
    policies = policies_for_list(request.member).archived(is_archived=is_archived)
    page = page_of(policies, cursor=request.GET.get("cursor", ""), order=sorting.fields, size=50)
    champions = champions_of(request.member)
    success = held_out_success(request.member, list(page))
    rows = [(policy, champions.get(policy.pk, []), success[policy.pk]) for policy in page]
    context = {
        "page": page,
        "rows": rows,
        "sorting": sorting,
        "is_archived": is_archived,
        "has_archived": is_archived or Policy.objects.visible_to(request.member).archived().exists(),
    }
    return render(request, "policies/policies.html", context)


@require_safe
def show(request: HtmxRequest, policy_id: UUID) -> HttpResponse:
    """One policy: its ancestors, its descendants, and its results."""
    policy = get_object_or_404(policy_for_page(request.member), pk=policy_id)
    context = {
        "policy": policy,
        "environments": champions_of(request.member).get(policy.pk, []),
        "can_act": policy.kind not in Policy.SILENT,
        "answers_here": bool(local_model_id(policy)),
        "rollouts": policy.rollouts.select_related("created_by").order_by("-pk")[:SHOWN_ROLLOUTS],
        "success": held_out_success(request.member, [policy])[policy.pk],
        "trajectories": trajectories_by_environment(policy),
        "runs": policy.runs.select_related("version__dataset", "result")
        .defer("config", "failure")
        .order_by("-pk")[:SHOWN_ROLLOUTS],
        "promotions": Promotion.objects.visible_to(request.member)
        .filter(policy=policy)
        .select_related("by")
        .order_by("-pk")[:20],
        **publications_of(policy)._asdict(),
        "can_be_published": weights_of(policy) is not None,
        "checkpoints": policy.checkpoints.order_by("step"),
        "report": report_rows(policy.report),
        "calibration": calibration_of(policy.report),
    }
    return render(request, "policies/policy.html", context)


@require_POST
@at_least(Role.RESEARCHER)
def archive(request: HtmxRequest, policy_id: UUID) -> HttpResponse:
    """Archive a policy."""
    policy = get_object_or_404(Policy.objects.visible_to(request.member), pk=policy_id)
    try:
        archive_policy(policy=policy, by=request.member.user)
    except IsChampion as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, f"{policy} is archived.")
    return redirect("policies:policy", policy.pk)


@require_POST
@at_least(Role.RESEARCHER)
def restore(request: HtmxRequest, policy_id: UUID) -> HttpResponse:
    """Restore an archived policy."""
    policy = get_object_or_404(Policy.objects.visible_to(request.member), pk=policy_id)
    restore_policy(policy=policy, by=request.member.user)
    messages.success(request, f"{policy} is back in lists and choices.")
    return redirect("policies:policy", policy.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
@needs_recent_sign_in("register a policy")
def register(request: HtmxRequest) -> HttpResponse:
    """Register a base model, a script, or a served model."""
    if request.method != "POST":
        return render(request, "policies/register.html", {"form": PolicyForm()})
    form = PolicyForm(request.POST)
    if form.is_valid():
        try:
            policy = form.register(workspace=request.member.workspace, by=request.user)
        except PolicyRefused as refusal:
            form.add_error(refusal.field or None, str(refusal))
        else:
            messages.success(request, f"{policy.name} is registered.")
            return redirect("policies:policy", policy.pk)
    return render(request, "policies/register.html", {"form": form}, status=422)
