"""Signing in and out."""

from urllib.parse import quote

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from apps.accounts import login
from apps.accounts.forms import SignInForm
from apps.accounts.models import User
from apps.accounts.profile_settings import end_connections
from apps.common.http import HtmxRequest, next_url
from apps.common.limits import TooManyTries
from apps.common.quantities import duration


@login_not_required
@never_cache
@sensitive_post_parameters("password")
def sign_in(request: HtmxRequest) -> HttpResponse:
    onward = next_url(request, otherwise=resolve_url(settings.LOGIN_REDIRECT_URL))
    if request.htmx:  # the session ended while a page was open: redirect the whole page to sign-in, and back
        return HttpResponseClientRedirect(resolve_url("accounts:sign_in") + f"?next={quote(_open_page(request))}")
    if request.user.is_authenticated:
        return redirect(onward)
    form = SignInForm(request.POST or None)
    status, retry_after = 422 if form.is_bound else 200, ""
    if form.is_valid():
        try:
            user = login.sign_in(request, **form.cleaned_data)
            response = redirect(onward)
            login.remember_browser(request, response, user)
            return response
        except login.WrongCredentials as refusal:
            form.add_error(None, str(refusal))
        except TooManyTries as refusal:
            form.add_error(None, f"Too many tries. Try again in {duration(refusal.retry_after)}.")
            status, retry_after = 429, str(refusal.retry_after)
    context = {"form": form, "next": onward, "demo_people": _demo_people()}
    response = render(request, "accounts/sign_in.html", context, status=status)
    if retry_after:
        response["Retry-After"] = retry_after
    return response


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    user = request.user
    logout(request)
    if isinstance(user, User):  # signing out in a second tab is anonymous
        end_connections(user)
    response = redirect(settings.LOGOUT_REDIRECT_URL)
    response["Clear-Site-Data"] = '"cache"'  # the back button must not show this person's pages
    return response


def _open_page(request: HtmxRequest) -> str:
    """The path of the current page according to htmx."""
    try:
        return request.htmx.current_url_abs_path or "/"
    except ValueError:  # an invalid URL, such as `http://[`
        return "/"


def _demo_people() -> list[dict[str, str]]:
    """The demo accounts, if the demo workspace exists."""
    there = set(
        User.objects.filter(email__in=[p["email"] for p in settings.DEMO_SIGN_INS]).values_list("email", flat=True)
    )
    return [person for person in settings.DEMO_SIGN_INS if person["email"] in there]
