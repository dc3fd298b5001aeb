"""Pages for what went wrong: each says what to do now. The API answers in JSON, here too."""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from redis.exceptions import ConnectionError, TimeoutError

from apps.accounts.membership import current_membership
from apps.accounts.models import Membership, User
from apps.common.http import NotHere

AWAY = (OperationalError, InterfaceError, ConnectionError, TimeoutError)
"""What is raised while Postgres or Valkey restarts."""
RETRY_SECONDS = 5
FAULT = "This failed through a fault of the server, whose log says more."


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Offers the visitor's other workspaces, where the page may be."""
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": "There is no such address in the API. See /api/docs/."}, status=404)
    user = getattr(request, "user", None)
    others: list[Membership] = []
    if isinstance(user, User):
        current = current_membership(user, request.session)
        memberships = Membership.objects.filter(user=user).select_related("workspace").order_by("workspace__name")[:20]
        others = [membership for membership in memberships if membership != current]
    words = str(exception) if isinstance(exception, NotHere) else ""
    return render(request, "404.html", {"others": others, "words": words}, status=404)


def failed(request: HttpRequest) -> HttpResponse:
    """A fault of ours, or Postgres or Valkey is away. Asks for nothing that may be what failed."""
    is_away = isinstance(sys.exception(), AWAY)
    status, headers = (503, {"Retry-After": str(RETRY_SECONDS)}) if is_away else (500, {})
    if request.path.startswith("/api/"):
        words = "The database or the broker does not answer just now. Try again." if is_away else FAULT
        return JsonResponse({"detail": words}, status=status, headers=headers)
    page = render_to_string(f"{status}.html", {"can_repeat": request.method == "GET"})
    return HttpResponse(page, status=status, headers=headers)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form from a page that was opened before signing in, or from another site."""
    return render(request, "403_csrf.html", status=403)
