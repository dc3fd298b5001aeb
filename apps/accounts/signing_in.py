"""Signing in, with limits that make guessing passwords hopeless and say when to try again."""

import hashlib

from django.contrib.auth import authenticate, login
from django.http import HttpRequest

from apps.accounts.models import User
from apps.common.limits import Limit

# Of one account: few, because a person who knows the password needs few. Of one address: more, because offices share one.
PER_ACCOUNT = Limit("sign-in-account", tries=10, seconds=15 * 60)
PER_ADDRESS = Limit("sign-in-address", tries=50, seconds=15 * 60)


class WrongCredentials(Exception):
    """No active account has this e-mail address and password. Which of the two is wrong is not said."""


def sign_in(request: HttpRequest, *, email: str, password: str) -> User:
    """Start a session. Raises WrongCredentials, or TooManyTries before the password is even looked at."""
    address = request.META.get("REMOTE_ADDR", "")
    # Hashed, because what people type here by mistake may be a password.
    account = hashlib.sha256(email.strip().lower().encode()).hexdigest()
    PER_ADDRESS.count(address)
    PER_ACCOUNT.count(account)
    user = authenticate(request, username=email.strip(), password=password)
    if not isinstance(user, User):
        raise WrongCredentials("No account has this e-mail address and password.")
    PER_ACCOUNT.forgive(account)
    login(request, user)
    return user
