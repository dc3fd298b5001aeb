"""The confirmation page of a deletion, and the page of a requested deletion."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.removal import deletion, removal_job, retention
from apps.removal.forms import ChangeRuleForm, RuleForm
from apps.removal.models import Removal, RetentionRule


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def confirm(request: HtmxRequest, thing: str, target_id: UUID) -> HttpResponse:
    """What would be removed, or what depends on it; submitting it requests the deletion."""
    if thing not in deletion.MODELS:
        raise Http404
    target = deletion.target_of(thing, target_id, request.member.workspace)
    if target is None:
        raise Http404
    if request.method == "POST":
        try:
            removal = removal_job.ask_for_removal(thing=thing, target=target, by=request.member)
            return redirect("removal:removal", removal_id=removal.pk)
        except deletion.StillNeeded:
            messages.error(request, "Something depends on it, so nothing was deleted.")
    context = {"thing": Removal.Thing(thing), "outlook": deletion.outlook(target), "page": deletion.page_of(target)}
    return render(request, "removal/confirm.html", context, status=409 if request.method == "POST" else 200)


@require_safe
@at_least(Role.RESEARCHER)
def removal(request: HtmxRequest, removal_id: UUID) -> HttpResponse:
    """The progress of a deletion."""
    removal = get_object_or_404(Removal.objects.visible_to(request.member).select_related("created_by"), pk=removal_id)
    context = {"removal": removal, "list_page": deletion.LISTS[removal.thing]}
    return render(request, "removal/removal.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.OWNER)
def rules(request: HtmxRequest) -> HttpResponse:
    """The retention rules, each with how much it would delete now; new rules are off."""
    form = RuleForm(request.POST if request.method == "POST" else None, workspace=request.member.workspace)
    if form.is_valid():
        try:
            retention.create_rule(by=request.member, **form.cleaned_data)
            messages.success(request, "The rule is created. It's off until you turn it on.")
            return redirect("removal:rules")
        except retention.RuleRefused as refusal:
            form.add_error(refusal.field, str(refusal))
    rows = RetentionRule.objects.visible_to(request.member)
    page = page_of(rows, cursor=request.GET.get("cursor", ""), size=20)
    done = Removal.objects.visible_to(request.member).filter(thing=Removal.Thing.EXPIRED).order_by("-pk")[:10]
    context = {
        "form": form,
        "page": page,
        "rows": [(rule, retention.would_go(rule)) for rule in page],
        "counted": retention.COUNTED,
        "done": done,
    }
    return render(request, "removal/rules.html", context, status=422 if form.is_bound else 200)


@require_POST
@at_least(Role.OWNER)
def turn_rule(request: HtmxRequest, rule_id: UUID) -> HttpResponse:
    """Turn a rule on or off."""
    rule = get_object_or_404(RetentionRule.objects.visible_to(request.member), pk=rule_id)
    form = ChangeRuleForm(request.POST)
    form.is_valid()
    retention.change_rule(rule=rule, by=request.member, is_on=form.cleaned_data["is_on"])
    return redirect("removal:rules")


@require_POST
@at_least(Role.OWNER)
def remove_rule(request: HtmxRequest, rule_id: UUID) -> HttpResponse:
    """Remove a rule."""
    rule = get_object_or_404(RetentionRule.objects.visible_to(request.member), pk=rule_id)
    retention.remove_rule(rule=rule, by=request.member)
    return redirect("removal:rules")
