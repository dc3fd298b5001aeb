"""The page of an invitation link: join with the current or a new account."""

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from apps.accounts import invitation_links
from apps.accounts.forms import NewAccountForm
from apps.accounts.login import remember_browser
from apps.accounts.membership import enter
from apps.accounts.models import Invitation, Membership, User
from apps.common.http import HtmxRequest, NotHere
from apps.common.limits import Limit

PER_ADDRESS = Limit("join", tries=30, seconds=15 * 60)
GONE = "This invitation was already used, was revoked, or has expired. Ask whoever sent it for a new one."


@login_not_required
@never_cache
@sensitive_post_parameters("password")
def join(request: HtmxRequest, secret: str) -> HttpResponse:
    invitation = invitation_links.find(secret)
    if invitation is None:
        raise NotHere(GONE)
    if request.user.is_authenticated:
        return _join_as(request, invitation)
    if User.objects.filter(email__lower=invitation.email.lower()).exists():
        return render(request, "accounts/join.html", {"invitation": invitation, "has_account": True})
    if request.method == "POST":
        PER_ADDRESS.count(request.META.get("REMOTE_ADDR", ""))
    form = NewAccountForm(request.POST or None, user=User(email=invitation.email))
    if not form.is_valid():
        return render(
            request,
            "accounts/join.html",
            {"invitation": invitation, "form": form},
            status=422 if form.is_bound else 200,
        )
    try:
        membership = invitation_links.accept_as_new(invitation=invitation, **form.cleaned_data)
    except invitation_links.InvitationGone as refusal:
        raise NotHere(GONE) from refusal
    except invitation_links.AccountExists:
        return redirect(request.path)
    login(request, membership.user)
    response = _welcome(request, membership)
    remember_browser(request, response, membership.user)
    return response


def _join_as(request: HtmxRequest, invitation: Invitation) -> HttpResponse:
    if request.method != "POST":
        return render(request, "accounts/join.html", {"invitation": invitation})
    try:
        return _welcome(request, invitation_links.accept(invitation=invitation, user=request.user))
    except invitation_links.AlreadyMember as refusal:
        messages.info(request, str(refusal))
        return redirect("home")
    except invitation_links.InvitationGone as refusal:
        raise NotHere(GONE) from refusal


def _welcome(request: HtmxRequest, membership: Membership) -> HttpResponse:
    enter(session=request.session, membership=membership)
    messages.success(request, f"You are in {membership.workspace}, as {membership.get_role_display()}.")
    return redirect("home")
