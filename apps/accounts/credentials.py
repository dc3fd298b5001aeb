"""Checks the sender of a request by its headers, before the body is read."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.core.handlers.asgi import ASGIRequest

from apps.accounts.authentication import digest_of
from apps.accounts.membership import current_membership
from apps.accounts.models import ApiToken, Role


@database_sync_to_async  # type: ignore[untyped-decorator]  # Channels has no types
def is_member(scope: Any) -> bool:
    """Whether the sender is a member of any workspace."""
    return _has_role(scope, Role.ANNOTATOR)


@database_sync_to_async  # type: ignore[untyped-decorator]  # Channels has no types
def is_researcher(scope: Any) -> bool:
    """Whether the sender is a researcher or an owner."""
    return _has_role(scope, Role.RESEARCHER)


def _has_role(scope: Any, role: Role) -> bool:
    """Checks the token, or else the session. Views check again, and report problems."""
    request = ASGIRequest(dict(scope), BytesIO())
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        tokens = ApiToken.objects.usable().filter(membership__user__is_active=True, membership__role__gte=role)
        return tokens.filter(digest=digest_of(secret.strip())).exists()
    store = import_module(settings.SESSION_ENGINE).SessionStore
    request.session = store(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    member = current_membership(get_user(request), request.session)
    return member is not None and member.role >= role
