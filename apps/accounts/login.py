"""Signing in, with limits that make guessing passwords hopeless and lock nobody out of a browser of their own.

A limit on the tries of an account alone would let any stranger lock its person out. So a browser in which somebody has signed in keeps a
signed cookie that says so, and tries from it are counted by themselves: those of strangers are not held against it, and a cookie gives
no more tries than its own (OWASP, "Slow Down Online Guessing Attacks with Device Cookies").
"""

import hashlib
from secrets import token_urlsafe
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth import authenticate, login
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url

from apps.accounts.models import User
from apps.common.limits import Limit

# Of one account from one address, and from a browser that knows the account: few, because a person who knows the password needs few.
PER_ACCOUNT_AND_ADDRESS = Limit("sign-in-account-address", tries=10, seconds=15 * 60)
PER_BROWSER = Limit("sign-in-browser", tries=10, seconds=15 * 60)
# Of one account from all browsers that do not know it: wider, for this one strangers can use up. It bounds guessing from many addresses.
PER_ACCOUNT = Limit("sign-in-account", tries=50, seconds=15 * 60)
# Of one address: more, because offices share one.
PER_ADDRESS = Limit("sign-in-address", tries=50, seconds=15 * 60)

COOKIE = "known"
COOKIE_SECONDS = 365 * 24 * 3600
SALT = "accounts.known-browser"


class WrongCredentials(Exception):
    """No active account has this e-mail address and password. Which of the two is wrong is not said."""


class Known(NamedTuple):
    """What the cookie says: an account signed in here, and a name for this browser that nobody can guess."""

    account: str
    browser: str


def sign_in(request: HttpRequest, *, email: str, password: str) -> User:
    """Start a session. Raises WrongCredentials, or TooManyTries before the password is even looked at."""
    address = request.META.get("REMOTE_ADDR", "")
    account = _digest(email)
    known = _known(request)
    if known and known.account == account:
        PER_BROWSER.count(known.browser)
    else:
        known = None
        PER_ADDRESS.count(address)
        PER_ACCOUNT_AND_ADDRESS.count(f"{account}@{address}")
        PER_ACCOUNT.count(account)
    user = authenticate(request, username=email.strip(), password=password)
    if not isinstance(user, User):
        raise WrongCredentials("No account has this e-mail address and password.")
    if known:
        PER_BROWSER.forgive(known.browser)
    else:
        PER_ACCOUNT_AND_ADDRESS.forgive(f"{account}@{address}")
        PER_ACCOUNT.forgive(account)
    login(request, user)
    return user


def remember_browser(request: HttpRequest, response: HttpResponse, user: User) -> None:
    """Let this browser be known for the account that has just signed in, until another one does."""
    account, known = _digest(user.email), _known(request)
    browser = known.browser if known and known.account == account else token_urlsafe(16)
    response.set_cookie(
        COOKIE,
        signing.dumps([account, browser], salt=SALT),
        max_age=COOKIE_SECONDS,
        path=resolve_url("accounts:sign_in"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _known(request: HttpRequest) -> Known | None:
    try:
        return Known(*signing.loads(request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=COOKIE_SECONDS))
    except signing.BadSignature:
        return None


def _digest(email: str) -> str:
    """Hashed, because what people type there by mistake may be a password."""
    return hashlib.sha256(email.strip().lower().encode()).hexdigest()
