"""Pages for publishing policies."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.recent_sign_in import needs_recent_sign_in
from apps.common.downloads import download
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.policies.forms import PublishForm
from apps.policies.locations import weights_of
from apps.policies.models import Policy, Publication
from apps.policies.publication import PublishingRefused, roll_back_publication
from apps.policies.published_tar import published_folder, tar_of
from apps.policies.queries import publications_of
from apps.policies.registration import PolicyRefused


@require_http_methods(["GET", "HEAD", "POST"])
@needs_recent_sign_in("publish a policy")
def publish(request: HtmxRequest, policy_id: UUID) -> HttpResponse:
    """Choose how and where to publish, and request it."""
    policy = _policy(request, policy_id)
    if weights_of(policy) is None:
        raise Http404
    form = PublishForm(request.POST or None, policy=policy, member=request.member)
    if request.method == "POST" and form.is_valid():
        try:
            publication = form.publish(by=request.user)
        except (PublishingRefused, PolicyRefused) as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, str(refusal))
        else:
            messages.success(request, f"{policy.name} is being published as {publication.name}.")
            return redirect("policies:policy", policy.pk)
    status = 422 if form.errors else 200
    return render(request, "policies/publish.html", {"policy": policy, "form": form}, status=status)


@fragment_of(lambda policy_id, **_: reverse("policies:policy", args=[policy_id]) + "#publications")
@require_safe
def publications(request: HtmxRequest, policy_id: UUID) -> HttpResponse:
    """The part of a policy's page that updates while it's being published."""
    policy = _policy(request, policy_id)
    context = {"policy": policy, **publications_of(policy)._asdict()}
    return render(request, "policies/_publications.html", context)


@require_POST
@needs_recent_sign_in("roll back a publication")
def roll_back(request: HtmxRequest, publication_id: UUID) -> HttpResponse:
    """Republish the policy that was live under the name before."""
    publication = get_object_or_404(
        Publication.objects.visible_to(request.member).select_related("policy"), pk=publication_id
    )
    try:
        back = roll_back_publication(publication=publication, by=request.user)
    except PublishingRefused as refusal:
        messages.error(request, str(refusal))
        return redirect("policies:policy", publication.policy_id)
    messages.success(request, f"{back.policy.name} is being published as {back.name} again.")
    return redirect("policies:policy", back.policy_id)


@require_safe
def download_folder(request: HtmxRequest, publication_id: UUID) -> HttpResponseBase:
    """A published folder as a tar archive."""
    folders = Publication.objects.visible_to(request.member).filter(way=Publication.Way.FOLDER).exclude(location="")
    publication = get_object_or_404(folders, pk=publication_id)
    if (folder := published_folder(publication)) is None:
        raise Http404
    parts = tar_of(folder, within=publication.name)
    return download(parts, filename=f"{publication.name}.tar", content_type="application/x-tar")


def _policy(request: HtmxRequest, policy_id: UUID) -> Policy:
    return get_object_or_404(Policy.objects.visible_to(request.member), pk=policy_id)
