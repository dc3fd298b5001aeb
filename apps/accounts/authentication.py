"""API authentication: a bearer token, or the session of a signed-in page."""

import hashlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.http import Http404
from django.utils.timezone import now
from redis.exceptions import RedisError
from rest_framework.authentication import BaseAuthentication, CSRFCheck, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied, Throttled
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle, SimpleRateThrottle

from apps.accounts.membership import current_membership
from apps.accounts.models import ApiToken, Membership, User
from apps.accounts.recent_sign_in import is_recent
from apps.common import fair_share
from apps.common.compiled_queries import CompiledQuery
from apps.common.limits import Limit, TooManyTries

if TYPE_CHECKING:
    from apps.common.api import (
        MemberView,
    )  # DRF loads this module while its own views are partially imported

UNKNOWN_TOKENS = Limit("unknown-token", tries=60, seconds=60)
"""Limit of unknown tokens per IP address. Known tokens have a separate limit: MemberRateThrottle."""


def digest_of(secret: str) -> str:
    """The stored digest of a secret. Tokens are 32 random bytes, so a single fast hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


class BearerTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer rt_…`; `request.auth` is the token, `request.member` its membership."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, secret = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = _TOKEN.first(digest=digest_of(secret.strip()), at=now())
        if token is None:
            _count_unknown(request)
            raise AuthenticationFailed(
                "This token is unknown, revoked, or expired. Create a new one under Settings, API tokens."
            )
        note_use(token)
        return token.membership.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def note_use(token: ApiToken) -> None:
    """Record when a token was used, to the minute: the page of tokens shows it."""
    if token.last_used_at is None or now() - token.last_used_at > timedelta(minutes=1):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now())


def _token(digest: str, at: datetime) -> models.QuerySet[ApiToken]:
    tokens = ApiToken.objects.usable(at).filter(digest=digest, membership__user__is_active=True)
    return tokens.select_related("membership__user", "membership__workspace")


_TOKEN = CompiledQuery(_token, digest=str, at=datetime)


class SessionAuthentication(BaseAuthentication):
    """The session of a signed-in page. `IsMember` checks its CSRF token, after the role check.

    DRF's own class checks it here and parses the body for that, which would reveal the address to unauthorized users.
    """

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        user = getattr(request._request, "user", None)
        return (user, None) if isinstance(user, User) and user.is_active else None


def _check_csrf(request: Request) -> None:
    check = CSRFCheck(lambda _: None)  # type: ignore[arg-type]  # the response isn't used
    check.process_request(request._request)
    if reason := check.process_view(request._request, None, (), {}):  # type: ignore[arg-type]  # only decorators of the view are read, and None has none
        raise PermissionDenied(
            f"The CSRF token is missing or belongs to another session ({reason}). Reload the page, or send a token."
        )


def _count_unknown(request: Request) -> None:
    """Guessing 32 random bytes is infeasible; this keeps a broken client from querying the database all day."""
    try:
        UNKNOWN_TOKENS.count(request.META.get("REMOTE_ADDR", ""))
    except TooManyTries as refusal:
        raise Throttled(wait=refusal.retry_after) from refusal


def member_of(request: Request) -> Membership | None:
    """The membership behind an API request: the token's, or else the session's current one."""
    if isinstance(request.auth, ApiToken):
        return request.auth.membership
    if request.user is None:
        return None
    return current_membership(request.user, request.session)


class IsMember(BasePermission):
    """Admits members with the view's required role, and sets `member` on the view; querysets decide what they see.

    Checked before throttling, parsing, or validation. Too low a role gets a 404, like an outsider.
    """

    message = "This account isn't in a workspace. Ask an owner for an invitation."

    def has_permission(self, request: Request, view: "MemberView") -> bool:  # type: ignore[override]  # every view of ours is one
        member = member_of(request)
        if member is None:
            return False
        shares = fair_share.of_person(member.user_id), fair_share.of_workspace(member.workspace_id)
        fair_share.enter(request._request, *shares)
        needed = view.needs if request.method in SAFE_METHODS else max(view.needs, view.needs_to_write)
        if member.role < needed:
            raise Http404
        if request.auth is None:
            _check_csrf(request)
        view.member = member
        return True


class RecentSignIn(BasePermission):
    """Changes to where models are reached require a recent password confirmation in a session, as on the page. Tokens are exempt: they aren't unattended browsers."""

    message = "A browser session needs a recent password confirmation for this. Use the page, which asks for it, or an API token."

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.method in SAFE_METHODS or isinstance(request.auth, ApiToken):
            return True
        return is_recent(request.session)


class AgentRateThrottle(BaseThrottle):
    """Throttles automated requests by agents and runners, which are many and cheap."""

    def allow_request(self, request: Request, view: Any) -> bool:
        limit = Limit("agents", tries=settings.API_AGENT_RATE, seconds=60)
        try:
            limit.count(_client_key(request))
        except TooManyTries as refused:
            self._wait = refused.retry_after
            return False
        except RedisError:  # the counter is down, which mustn't lock anybody out
            return True
        return True

    def wait(self) -> float:
        return self._wait


class MemberRateThrottle(SimpleRateThrottle):
    """Requests per minute for one token or one person; a 429 has Retry-After."""

    scope = "member"

    def allow_request(self, request: Request, view: Any) -> bool:
        try:
            return super().allow_request(request, view)
        except RedisError:  # the counter is down, which mustn't lock anybody out
            return True

    def get_cache_key(self, request: Request, view: Any) -> str:
        return f"throttle:{_client_key(request) if request.user else self.get_ident(request)}"


def _client_key(request: Request) -> str:
    """The key to count by: the token or the person."""
    return f"token:{request.auth.pk}" if isinstance(request.auth, ApiToken) else f"user:{request.user.pk}"
