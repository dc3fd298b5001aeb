"""Sign-in, with rate limits that prevent password guessing but lock nobody out of a known browser.

With only a limit per account, any stranger could lock its owner out. So a browser that has signed in gets a signed
cookie, and its tries are counted separately: strangers' tries don't count against it, and a stolen cookie doesn't
allow more tries (OWASP, "Slow Down Online Guessing Attacks with Device Cookies").
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
from apps.common.fair_share import SHARES, WORKSPACE_MAX_WAITING, Share
from apps.common.limits import Limit

# Per account and IP address, and per known browser: few, because a person who knows the password needs few.
PER_ACCOUNT_AND_ADDRESS = Limit("sign-in-account-address", tries=10, seconds=15 * 60)
PER_BROWSER = Limit("sign-in-browser", tries=10, seconds=15 * 60)
# Per account from all unknown browsers: higher, since strangers can exhaust it. It bounds distributed guessing.
PER_ACCOUNT = Limit("sign-in-account", tries=50, seconds=15 * 60)
# Per IP address: more, because offices share one.
PER_ADDRESS = Limit("sign-in-address", tries=50, seconds=15 * 60)

# Hashing a password takes a good part of a second of processor time, and strangers may come from any number of addresses.
# So that people in known browsers don't wait for strangers, they have a share of their own.
OF_STRANGERS, OF_KNOWN_BROWSERS = (
    Share(holder, at_once=2, max_waiting=WORKSPACE_MAX_WAITING)
    for holder in ("password checks of strangers", "password checks of known browsers")
)

COOKIE = "known"
COOKIE_SECONDS = 365 * 24 * 3600
SALT = "accounts.known-browser"


class WrongCredentials(Exception):
    """No active account has this e-mail address and password. Which one is wrong isn't revealed."""


class KnownBrowser(NamedTuple):
    """The cookie's content: an account that signed in here, and an unguessable browser id."""

    account: str
    browser: str


def sign_in(request: HttpRequest, *, email: str, password: str) -> User:
    """Start a session. Raises WrongCredentials, or TooManyTries before the password is checked, also if too many others wait for that."""
    address = request.META.get("REMOTE_ADDR", "")
    account = _digest(email)
    browser = _known_browser(request)
    if browser and browser.account == account:
        PER_BROWSER.count(browser.browser)
    else:
        browser = None
        PER_ADDRESS.count(address)
        PER_ACCOUNT_AND_ADDRESS.count(f"{account}@{address}")
        PER_ACCOUNT.count(account)
    share = OF_KNOWN_BROWSERS if browser else OF_STRANGERS
    SHARES.enter(share)
    try:
        user = authenticate(request, username=email.strip(), password=password)
    finally:
        SHARES.leave(share)
    if not isinstance(user, User):
        raise WrongCredentials("No account has this e-mail address and password.")
    if browser:
        PER_BROWSER.reset(browser.browser)
    else:
        PER_ACCOUNT_AND_ADDRESS.reset(f"{account}@{address}")
        PER_ACCOUNT.reset(account)
    login(request, user)
    return user


def remember_browser(request: HttpRequest, response: HttpResponse, user: User) -> None:
    """Mark this browser as known for the account that just signed in, until another one does."""
    account, remembered = _digest(user.email), _known_browser(request)
    browser = remembered.browser if remembered and remembered.account == account else token_urlsafe(16)
    response.set_cookie(
        COOKIE,
        signing.dumps([account, browser], salt=SALT),
        max_age=COOKIE_SECONDS,
        path=resolve_url("accounts:sign_in"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _known_browser(request: HttpRequest) -> KnownBrowser | None:
    try:
        return KnownBrowser(*signing.loads(request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=COOKIE_SECONDS))
    except signing.BadSignature:
        return None


def _digest(email: str) -> str:
    """Hashed, because people may type a password there by mistake."""
    return hashlib.sha256(email.strip().lower().encode()).hexdigest()
