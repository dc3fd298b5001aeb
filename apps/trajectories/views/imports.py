"""Pages of imports: upload, progress, and rejected rows."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.common.disk import DiskFull
from apps.common.downloads import download
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.common.pages import page_of
from apps.common.sorting import sorting_by
from apps.ingest import formats
from apps.jobs import lifecycle
from apps.trajectories.forms import ImportForm
from apps.trajectories.imports import rejected
from apps.trajectories.imports.live import progress_of
from apps.trajectories.imports.report_outcomes import withdraw_outcomes
from apps.trajectories.imports.upload import FileTooLarge, start_import, store
from apps.trajectories.lists import IMPORT_COLUMNS
from apps.trajectories.models import ImportBatch


@require_http_methods(["GET", "HEAD", "POST"])
@at_least(Role.RESEARCHER)
def imports(request: HtmxRequest) -> HttpResponse:
    """The workspace's imports, newest first, and the upload form."""
    if request.method != "POST":
        return _imports_page(request, ImportForm())
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _imports_page(request, form, status=422)
    started = []
    for file in form.cleaned_data["uploads"]:
        try:
            started.append(_start(request, file, form.cleaned_data["policy_name"]))
        except (FileTooLarge, DiskFull) as refusal:
            form.add_error("uploads", f"{file.name}: {refusal}")
            return _imports_page(request, form, status=422 if isinstance(refusal, FileTooLarge) else 507)
    if len(started) == 1:
        next_page = reverse("trajectories:import", args=[started[0].pk])
    else:
        messages.success(request, f"{len(started)} imports started.")
        next_page = reverse("trajectories:imports")
    # htmx would follow a redirect itself and consume the next page's message.
    return HttpResponseClientRedirect(next_page) if request.htmx else redirect(next_page)


def _imports_page(request: HtmxRequest, form: ImportForm, status: int = 200) -> HttpResponse:
    batches = ImportBatch.objects.visible_to(request.member).select_related("created_by")
    sorting = sorting_by(IMPORT_COLUMNS, request.GET.get("sort", ""))
    page = page_of(batches, cursor=request.GET.get("cursor", ""), order=sorting.fields, size=30)
    is_moving = any(batch.is_active for batch in page) and not form.is_bound  # a refused form is kept as it is
    context = {"form": form, "page": page, "sorting": sorting, "formats": formats.known(), "is_moving": is_moving}
    return render(request, "trajectories/imports.html", context, status=status)


def _start(request: HtmxRequest, file: UploadedFile[bytes], policy_name: str) -> ImportBatch:
    stored = store(file, filename=file.name or "")
    workspace_id = request.member.workspace_id
    return start_import(workspace_id=workspace_id, stored=stored, created_by=request.user, policy_name=policy_name)


@require_safe
def show_import(request: HtmxRequest, batch_id: UUID) -> HttpResponse:
    """One import: its progress, what was imported, and what was rejected."""
    return render(request, "trajectories/import.html", progress_of(_find(request, batch_id)))


@fragment_of(lambda batch_id, **_: reverse("trajectories:import", args=[batch_id]))
@require_safe
def import_progress(request: HtmxRequest, batch_id: UUID) -> HttpResponse:
    """Only the live part, for pages without a websocket."""
    return render(request, "trajectories/_import_progress.html", progress_of(_find(request, batch_id)))


@require_POST
def cancel_import(request: HtmxRequest, batch_id: UUID) -> HttpResponse:
    """Stop an import. What was imported stays."""
    batch = _find(request, batch_id)
    try:
        lifecycle.cancel(batch, by=request.user)
    except lifecycle.NotActive as refusal:
        messages.info(request, str(refusal))
    return redirect("trajectories:import", batch_id=batch.pk)


@require_POST
def retry_import(request: HtmxRequest, batch_id: UUID) -> HttpResponse:
    """Resume a failed or cancelled import where it stopped."""
    batch = _find(request, batch_id)
    try:
        lifecycle.resume(batch, by=request.user)
    except lifecycle.NotResumable as refusal:
        messages.error(request, str(refusal))
    return redirect("trajectories:import", batch_id=batch.pk)


@require_POST
def take_back_outcomes(request: HtmxRequest, batch_id: UUID) -> HttpResponse:
    """Remove the outcomes that this import gave to trajectories that existed before."""
    batch = _find(request, batch_id)
    withdrawn = withdraw_outcomes(batch)
    messages.success(request, f"{withdrawn:,} trajector{'y has' if withdrawn == 1 else 'ies have'} no outcome again.")
    return redirect("trajectories:import", batch_id=batch.pk)


@require_safe
def rejected_rows(request: HtmxRequest, batch_id: UUID, form: str) -> HttpResponseBase:
    """All rejected rows, as CSV or JSON Lines."""
    batch = _find(request, batch_id)
    if form not in rejected.FORMS:
        raise Http404
    return download(
        rejected.FORMS[form].parts(batch),
        filename=f"rejected-{batch.pk}.{form}",
        content_type=rejected.FORMS[form].content_type,
    )


def _find(request: HtmxRequest, batch_id: UUID) -> ImportBatch:
    return get_object_or_404(ImportBatch.objects.visible_to(request.member).select_related("created_by"), pk=batch_id)
