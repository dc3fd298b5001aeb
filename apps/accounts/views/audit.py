"""Settings page of the audit log: who did what, newest first."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.accounts.access import at_least
from apps.accounts.models import AuditEntry, Role
from apps.common.http import HtmxRequest
from apps.common.pages import page_of


@require_safe
@at_least(Role.OWNER)
def audit(request: HtmxRequest) -> HttpResponse:
    entries = AuditEntry.objects.visible_to(request.member).select_related("actor")
    return render(request, "accounts/audit.html", {"page": page_of(entries, cursor=request.GET.get("cursor", ""))})
