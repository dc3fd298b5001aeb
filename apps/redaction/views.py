"""Settings page of redaction rules."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.accounts.recent_sign_in import needs_recent_sign_in
from apps.common.http import HtmxRequest
from apps.redaction import rules as actions
from apps.redaction.detectors import DETECTORS
from apps.redaction.forms import DetectorForm, PatternForm, SampleForm
from apps.redaction.models import RedactionRule


@require_safe
@at_least(Role.OWNER)
def rules(request: HtmxRequest) -> HttpResponse:
    return _page(request)


@require_POST
@at_least(Role.OWNER)
def new(request: HtmxRequest) -> HttpResponse:
    form: forms.Form = DetectorForm(request.POST) if "detector" in request.POST else PatternForm(request.POST)
    if form.is_valid():
        try:
            rule = actions.add_rule(workspace=request.member.workspace, by=request.user, **form.cleaned_data)
        except actions.RuleRefused as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, str(refusal))
        else:
            messages.success(request, f"From now on {rule.name} is redacted.")
            return redirect("redaction:list")
    if isinstance(form, PatternForm):
        return _page(request, form=form, status=422)
    messages.error(request, " ".join(str(problem) for problems in form.errors.values() for problem in problems))
    return redirect("redaction:list")


@require_POST
@at_least(Role.OWNER)
def test(request: HtmxRequest) -> HttpResponse:
    form = SampleForm(request.POST)
    if not form.is_valid():
        return _page(request, sample=form, status=422)
    try:
        text, run = actions.preview(workspace=request.member.workspace, **form.cleaned_data)
    except actions.RuleRefused as refusal:
        form.add_error("pattern" if refusal.field == "pattern" else "sample", str(refusal))
        return _page(request, sample=form, status=422)
    return _page(request, sample=form, tried={"text": text, "found": run.found.most_common()})


@require_POST
@at_least(Role.OWNER)
@needs_recent_sign_in("remove a redaction rule")
def remove(request: HtmxRequest, redaction_rule_id: UUID) -> HttpResponse:
    rows = RedactionRule.objects.visible_to(request.member).select_related("workspace")
    rule = get_object_or_404(rows, pk=redaction_rule_id)
    actions.remove_rule(rule=rule, by=request.user)
    messages.success(request, f"From now on {rule.name} is stored.")
    return redirect("redaction:list")


def _page(
    request: HtmxRequest,
    *,
    form: PatternForm | None = None,
    sample: SampleForm | None = None,
    tried: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    rows = list(RedactionRule.objects.visible_to(request.member).select_related("created_by").order_by("pk"))
    used = {rule.detector for rule in rows}
    context = {
        "rules": rows,
        "detectors": [(key, detector) for key, detector in DETECTORS.items() if key not in used],
        "form": form or PatternForm(),
        "sample": sample or SampleForm(),
        "tried": tried,
    }
    return render(request, "redaction/rules.html", context, status=status)
