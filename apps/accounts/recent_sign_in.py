"""Actions that grant lasting access ask for the password again, unless it was entered recently in the same session.

So an unattended or hijacked session can't change roles, grant access, or send data to a new address.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from time import time
from typing import Any, Concatenate, ParamSpec

from django import forms
from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends.base import SessionBase
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.debug import sensitive_post_parameters

from apps.accounts.audit import record
from apps.common.http import HtmxRequest, page_before
from apps.common.limits import Limit, TooManyTries
from apps.common.quantities import duration

P = ParamSpec("P")
View = Callable[Concatenate[HtmxRequest, P], HttpResponseBase]

FIELD = "confirm_password"
GIVEN_AT = "password_given_at"
# Per person, over all browsers. Only somebody with a session of theirs can exhaust it, so no stranger can lock them out.
PER_PERSON = Limit("confirm-password", tries=10, seconds=15 * 60)


class ConfirmForm(forms.Form):
    confirm_password = forms.CharField(
        label="Password",
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
    )


@receiver(user_logged_in)
def _note_sign_in(request: HttpRequest, **_: Any) -> None:
    """Any sign-in counts as entering the password."""
    request.session[GIVEN_AT] = time()


def is_recent(session: SessionBase) -> bool:
    """Whether the password was entered in this session within the last RECENT_SIGN_IN_SECONDS."""
    age: float = time() - session.get(GIVEN_AT, 0)
    return 0 <= age < settings.RECENT_SIGN_IN_SECONDS


def needs_recent_sign_in(action: str) -> Callable[[View[P]], View[P]]:
    """Ask for the password before a view does `action` ("change a role"); the submitted form is kept and passed to the view afterwards."""

    def guard(view: View[P]) -> View[P]:
        @sensitive_post_parameters(FIELD)
        def guarded(request: HtmxRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            response = None
            if request.method == "POST" and not is_recent(request.session):
                response = _ask(request, action)
            return response if response is not None else view(request, *args, **kwargs)

        update_wrapper(guarded, view)
        guarded.needs_recent_sign_in = action  # type: ignore[attr-defined]  # read by the test of all addresses
        return guarded

    return guard


def _ask(request: HtmxRequest, action: str) -> HttpResponse | None:
    """The page that asks for the password, or None if it was entered."""
    form = ConfirmForm(request.POST if FIELD in request.POST else None)
    status = 422  # also for the first response: htmx must show it, and nothing was done
    if form.is_valid():
        try:
            if _confirm(request, form.cleaned_data[FIELD], action):
                return None
            form.add_error(FIELD, "This isn't your password.")
        except TooManyTries as refusal:
            form.add_error(FIELD, f"Too many tries. Try again in {duration(refusal.retry_after)}.")
            status = 429
    left_out = {"csrfmiddlewaretoken", FIELD}
    fields = [(name, value) for name, values in request.POST.lists() if name not in left_out for value in values]
    context = {
        "form": form,
        "kept": fields,
        "action": action,
        "back": page_before(request, otherwise="/"),
        "minutes": settings.RECENT_SIGN_IN_SECONDS // 60,
    }
    response = render(request, "accounts/confirm.html", context, status=status)
    response["Cache-Control"] = "no-store"
    return response


def _confirm(request: HtmxRequest, password: str, action: str) -> bool:
    """Whether this is the person's password; if so, the session counts as recent again. Raises TooManyTries."""
    PER_PERSON.count(str(request.user.pk))
    is_right = request.user.check_password(password)
    memberships = request.user.own_memberships
    if memberships:
        audit_action = "password given again to" if is_right else "wrong password given to"
        record(workspace=request.member.workspace, actor=request.user, action=audit_action, subject=action)
    if is_right:
        PER_PERSON.reset(str(request.user.pk))
        request.session[GIVEN_AT] = time()
    return is_right
