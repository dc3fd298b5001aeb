"""API tokens: a secret shown once, stored hashed, revocable, with an expiry."""

import secrets
from datetime import timedelta
from typing import NamedTuple

from django.db import transaction
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.authentication import digest_of
from apps.accounts.models import ApiToken, Membership, User

MARK = "rt_"
PREFIX_LENGTH = len(MARK) + 6  # enough to distinguish a person's tokens, useless for guessing the rest


class TokenGone(Exception):
    """The token was already revoked."""


class NewToken(NamedTuple):
    """A token with its secret, which isn't stored."""

    token: ApiToken
    secret: str


@transaction.atomic
def issue_token(*, membership: Membership, name: str, lifetime: timedelta | None = None) -> NewToken:
    """Create a token that acts as `membership` until it's revoked or expires."""
    secret = MARK + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        membership=membership,
        name=name,
        prefix=secret[:PREFIX_LENGTH],
        digest=digest_of(secret),
        expires_at=now() + lifetime if lifetime else None,
    )
    audit.record(
        workspace=membership.workspace,
        actor=membership.user,
        action="made API token",
        subject=f"{name} ({token.prefix}…)",
        target=token,
    )
    return NewToken(token, secret)


@transaction.atomic
def revoke_token(*, token: ApiToken, by: User) -> None:
    """Revoke a token immediately. Raises TokenGone."""
    if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now()):
        raise TokenGone("This token was revoked already.")
    audit.record(
        workspace=token.membership.workspace,
        actor=by,
        action="revoked API token",
        subject=f"{token.name} ({token.prefix}…) of {token.membership.user}",
        target=token,
    )
