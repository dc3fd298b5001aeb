"""Error pages, which say what to do. For the API, JSON responses."""

import sys

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from apps.accounts.membership import current_membership
from apps.accounts.models import Membership, User
from apps.common import disk
from apps.common.http import NotHere
from apps.common.outages import Outage, outage_of
from apps.common.quantities import size

RETRY_SECONDS = {Outage.AWAY: 5, Outage.DISK_FULL: 60}
MESSAGES = {
    None: "The server failed; its log says why.",
    Outage.AWAY: "The database, the message broker, or the storage of files isn't responding. Try again.",
    Outage.DISK_FULL: disk.FULL,
}


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Offers the visitor's other workspaces, which may contain the page."""
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": "There is no such endpoint. See /api/docs/."}, status=404)
    user = getattr(request, "user", None)
    other_memberships: list[Membership] = []
    if isinstance(user, User):
        current = current_membership(user, request.session)
        memberships = Membership.objects.filter(user=user).select_related("workspace").order_by("workspace__name")[:20]
        other_memberships = [membership for membership in memberships if membership != current]
    message = str(exception) if isinstance(exception, NotHere) else ""
    return render(request, "404.html", {"others": other_memberships, "message": message}, status=404)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Requests that Django refuses: a form with too many fields, a broken multipart body, a wrong host name."""
    status, message = 400, ""
    if isinstance(exception, RequestDataTooBig):
        limit = size(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        status, message = 413, f"The request holds more than {limit} besides files. Send less at once."
    elif isinstance(exception, TooManyFieldsSent):
        message = f"The request has more than {settings.DATA_UPLOAD_MAX_NUMBER_FIELDS:,} fields. Send fewer at once."
    if request.path.startswith("/api/"):
        message = message or "The request can't be read. Check its headers and its body, then send it again."
        return JsonResponse({"detail": message}, status=status)
    return HttpResponse(render_to_string("400.html", {"message": message}), status=status)


def failed(request: HttpRequest) -> HttpResponse:
    """A bug, or an outage of a service. Uses nothing that may have failed."""
    outage = outage_of(sys.exception())
    status, headers = (outage.value, {"Retry-After": str(RETRY_SECONDS[outage])}) if outage else (500, {})
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": MESSAGES[outage]}, status=status, headers=headers)
    page = render_to_string(f"{status}.html", {"can_repeat": request.method == "GET"})
    return HttpResponse(page, status=status, headers=headers)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form from a page that was opened before signing in, or from another site."""
    return render(request, "403_csrf.html", status=403)
