"""Settings page of API tokens."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts import api_tokens
from apps.accounts.access import at_least
from apps.accounts.forms import TokenForm
from apps.accounts.models import ApiToken, Role
from apps.accounts.recent_sign_in import needs_recent_sign_in
from apps.common.http import HtmxRequest
from apps.common.limits import Limit
from apps.common.pages import page_of

PER_MEMBER = Limit("issue-token", tries=20, seconds=60 * 60)


@require_safe
@at_least(Role.RESEARCHER)
def tokens(request: HtmxRequest) -> HttpResponse:
    return render(request, "accounts/tokens.html", _page(request, TokenForm()))


@require_POST
@never_cache
@at_least(Role.RESEARCHER)
@needs_recent_sign_in("make an API token")
def issue(request: HtmxRequest) -> HttpResponse:
    """Renders the page without a redirect: the secret is only shown once and not stored."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return render(request, "accounts/tokens.html", _page(request, form), status=422)
    PER_MEMBER.count(str(request.member.pk))
    issued = api_tokens.issue_token(membership=request.member, **form.cleaned_data)
    return render(request, "accounts/tokens.html", {**_page(request, TokenForm()), "made": issued})


@require_POST
@needs_recent_sign_in("revoke an API token")
def revoke(request: HtmxRequest, token_id: UUID) -> HttpResponse:
    token = get_object_or_404(
        ApiToken.objects.visible_to(request.member).select_related("membership__workspace", "membership__user"),
        pk=token_id,
    )
    try:
        api_tokens.revoke_token(token=token, by=request.user)
        messages.success(request, f"“{token.name}” no longer works.")
    except api_tokens.TokenGone as refusal:
        messages.info(request, str(refusal))
    return redirect("accounts:tokens")


def _page(request: HtmxRequest, form: TokenForm) -> dict[str, Any]:
    visible = ApiToken.objects.visible_to(request.member).select_related("membership__user")
    return {"page": page_of(visible, cursor=request.GET.get("cursor", "")), "form": form}
