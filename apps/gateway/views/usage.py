"""Settings page of prices and usage limits."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.accounts.recent_sign_in import needs_recent_sign_in
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.gateway.forms import PriceForm, UsageLimitsForm
from apps.gateway.models import Price, UsageLimits
from apps.gateway.queries import spent_today
from apps.gateway.spending import terms
from apps.gateway.spending.models import LIMITS


@require_safe
@at_least(Role.OWNER)
def usage(request: HtmxRequest) -> HttpResponse:
    return _page(request)


@require_POST
@at_least(Role.OWNER)
@needs_recent_sign_in("change usage limits")
def set_limits(request: HtmxRequest) -> HttpResponse:
    form = UsageLimitsForm(request.POST)
    if not form.is_valid():
        return _page(request, limits=form, status=422)
    terms.set_limits(workspace=request.member.workspace, by=request.user, limits=form.cleaned_data)
    messages.success(request, f"Limits saved. They take effect within {terms.CACHE_SECONDS:.0f} seconds.")
    return redirect("gateway:usage")


@require_POST
@at_least(Role.OWNER)
@needs_recent_sign_in("set a price")
def set_price(request: HtmxRequest) -> HttpResponse:
    form = PriceForm(request.POST, member=request.member)
    if not form.is_valid():
        return _page(request, price=form, status=422)
    price = terms.set_price(workspace=request.member.workspace, by=request.user, **form.price)
    messages.success(request, f"Price of {price} saved. It applies to calls from now on.")
    return redirect("gateway:usage")


@require_POST
@at_least(Role.OWNER)
@needs_recent_sign_in("remove a price")
def remove_price(request: HtmxRequest, price_id: UUID) -> HttpResponse:
    rows = Price.objects.visible_to(request.member).select_related("workspace", "policy", "endpoint")
    price = get_object_or_404(rows, pk=price_id)
    terms.remove_price(price=price, by=request.user)
    messages.success(request, f"Price of {price} removed. The cost of its later calls is unknown.")
    return redirect("gateway:usage")


def _page(
    request: HtmxRequest,
    *,
    limits: UsageLimitsForm | None = None,
    price: PriceForm | None = None,
    status: int = 200,
) -> HttpResponse:
    row = UsageLimits.objects.visible_to(request.member).first() or UsageLimits()
    prices = Price.objects.visible_to(request.member).select_related("policy", "endpoint")
    context = {
        "limits": limits or UsageLimitsForm(initial={name: getattr(row, name) for name in LIMITS}),
        "form": price or PriceForm(member=request.member),
        "page": page_of(prices, cursor=request.GET.get("cursor", "")),
        "spent": spent_today(request.member.workspace),
    }
    return render(request, "gateway/usage.html", context, status=status)
