"""The user's own name, password, theme, and keys."""

from typing import Any

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from apps.accounts import profile_settings
from apps.accounts.forms import NameForm, PasswordForm, PreferencesForm
from apps.accounts.recent_sign_in import PER_PERSON
from apps.common.http import HtmxRequest


@require_safe
def profile(request: HtmxRequest) -> HttpResponse:
    return _show(request)


@require_POST
def change_name(request: HtmxRequest) -> HttpResponse:
    form = NameForm(request.POST)
    if not form.is_valid():
        return _show(request, name_form=form, status=422)
    profile_settings.change_name(user=request.user, **form.cleaned_data)
    messages.success(request, "Your name is changed.")
    return redirect("accounts:profile")


@require_POST
@sensitive_post_parameters("current", "password")
def change_password(request: HtmxRequest) -> HttpResponse:
    PER_PERSON.count(str(request.user.pk))
    form = PasswordForm(request.POST, user=request.user)
    if not form.is_valid():
        return _show(request, password_form=form, status=422)
    PER_PERSON.reset(str(request.user.pk))
    profile_settings.change_password(user=request.user, password=form.cleaned_data["password"])
    update_session_auth_hash(request, request.user)
    messages.success(request, "Your password is changed; other browsers are signed out.")
    return redirect("accounts:profile")


@require_POST
def preferences(request: HtmxRequest) -> HttpResponse:
    """Saves preferences for static/js/core/theme.js and the profile's button; only submitted ones change."""
    form = PreferencesForm(request.POST)
    if not form.is_valid():
        return HttpResponse(status=422)
    changes = {name: value for name, value in form.cleaned_data.items() if name in request.POST}
    profile_settings.save_preferences(user=request.user, **changes)
    return redirect("accounts:profile") if "back" in request.POST else HttpResponse(status=204)


def _show(request: HtmxRequest, *, status: int = 200, **forms: Any) -> HttpResponse:
    context = {
        "name_form": NameForm(initial={"name": request.user.name}),
        "password_form": PasswordForm(user=request.user),
        "remapped": sorted(request.user.remapped_keys.items()),
        **forms,
    }
    return render(request, "accounts/profile.html", context, status=status)
