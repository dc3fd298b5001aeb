"""Pages for what went wrong: each says what to do now. The API answers in JSON, here too."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.defaults import server_error

from apps.accounts.membership import current_membership
from apps.accounts.models import Membership, User
from apps.common.http import NotHere


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
    """A fault of ours. Asks for nothing that may be what failed."""
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": "This failed through a fault of the server, whose log says more."}, status=500)
    return server_error(request)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form from a page that was opened before signing in, or from another site."""
    return render(request, "403_csrf.html", status=403)
