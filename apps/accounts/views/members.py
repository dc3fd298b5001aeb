"""Settings page of members, roles, and invitations. Owners can change them, researchers can view them."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts import invitation_links, membership_changes
from apps.accounts.access import at_least
from apps.accounts.forms import InvitationForm, RoleForm
from apps.accounts.models import Invitation, Membership, Role
from apps.accounts.owners import NotOwner
from apps.accounts.recent_sign_in import needs_recent_sign_in
from apps.common.http import HtmxRequest
from apps.common.pages import page_of


@require_safe
def settings(request: HtmxRequest) -> HttpResponse:
    """The first page of the settings."""
    return redirect("accounts:members")


@require_safe
@at_least(Role.RESEARCHER)
def members(request: HtmxRequest) -> HttpResponse:
    return render(request, "accounts/members.html", _page(request, InvitationForm()))


@require_POST
@needs_recent_sign_in("change a role")
def change_role(request: HtmxRequest, membership_id: int) -> HttpResponse:
    membership = _manageable(request, membership_id)
    form = RoleForm(request.POST)
    if not form.is_valid():
        return render(request, "accounts/members.html", _page(request, InvitationForm()), status=422)
    try:
        membership_changes.change_role(membership=membership, role=form.cleaned_data["role"], by=request.user)
        messages.success(request, f"{membership.user} is now {membership.get_role_display()}.")
    except (membership_changes.LastOwner, membership_changes.NoMember, NotOwner) as refusal:
        messages.error(request, str(refusal))
    return redirect("accounts:members")


@require_POST
@needs_recent_sign_in("remove a member")
def remove(request: HtmxRequest, membership_id: int) -> HttpResponse:
    membership = _manageable(request, membership_id)
    try:
        membership_changes.remove(membership=membership, by=request.user)
        messages.success(request, f"{membership.user} is no longer in {membership.workspace}.")
    except (membership_changes.LastOwner, membership_changes.NoMember, NotOwner) as refusal:
        messages.error(request, str(refusal))
    return redirect("accounts:members")


@require_POST
@never_cache
@at_least(Role.OWNER)
@needs_recent_sign_in("invite somebody")
def invite(request: HtmxRequest) -> HttpResponse:
    """Renders the page without a redirect: the link is only shown once and not stored."""
    form = InvitationForm(request.POST)
    link = ""
    if form.is_valid():
        try:
            created = invitation_links.invite(workspace=request.member.workspace, by=request.user, **form.cleaned_data)
            link = request.build_absolute_uri(reverse("accounts:join", args=[created.secret]))
            form = InvitationForm()
        except (invitation_links.AlreadyMember, NotOwner) as refusal:
            form.add_error("email", str(refusal))
    context = {**_page(request, form), "link": link, "invited": request.POST.get("email", "")}
    return render(request, "accounts/members.html", context, status=200 if link else 422)


@require_POST
@needs_recent_sign_in("revoke an invitation")
def revoke_invitation(request: HtmxRequest, invitation_id: UUID) -> HttpResponse:
    invitation = get_object_or_404(
        Invitation.objects.visible_to(request.member).select_related("workspace"), pk=invitation_id
    )
    try:
        invitation_links.revoke(invitation=invitation, by=request.user)
        messages.success(request, f"The link of {invitation.email} no longer works.")
    except invitation_links.InvitationGone as refusal:
        messages.error(request, str(refusal))
    return redirect("accounts:members")


def _page(request: HtmxRequest, form: InvitationForm) -> dict[str, Any]:
    people = Membership.objects.visible_to(request.member).select_related("user", "workspace")
    invitations = Invitation.objects.visible_to(request.member).open().select_related("invited_by").order_by("-pk")
    return {
        "page": page_of(people, cursor=request.GET.get("cursor", ""), order=("pk",), size=100),
        "invitations": invitations[:100],
        "form": form,
        "roles": Role.choices,
    }


def _manageable(request: HtmxRequest, membership_id: int) -> Membership:
    people = Membership.objects.visible_to(request.member, at_least=Role.OWNER).select_related("user", "workspace")
    return get_object_or_404(people, pk=membership_id)
