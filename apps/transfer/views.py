"""The settings page on which owners export the workspace, and import an archive into an empty one."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from apps.accounts.access import at_least
from apps.accounts.models import Role
from apps.accounts.recent_sign_in import needs_recent_sign_in
from apps.common.disk import DiskFull
from apps.common.http import HtmxRequest
from apps.trajectories.imports.upload import FileTooLarge, store
from apps.transfer import export_job, import_job
from apps.transfer.download import archive_of
from apps.transfer.forms import ExportForm, ImportForm
from apps.transfer.loader import NotEmpty, refuse_content
from apps.transfer.models import Export, Import
from apps.transfer.refusals import TransferRefused

MAX_SHOWN = 20


@require_safe
@at_least(Role.OWNER)
def transfer(request: HtmxRequest) -> HttpResponse:
    """The latest exports and imports, and the forms for new ones."""
    return _page(request, ImportForm())


@require_POST
@at_least(Role.OWNER)
@needs_recent_sign_in("export the workspace")
def new_export(request: HtmxRequest) -> HttpResponse:
    """Request an export."""
    form = ExportForm(request.POST)
    form.is_valid()
    export_job.request_export(by=request.member, include_weights=form.cleaned_data["include_weights"])
    return redirect("transfer:transfer")


@require_safe
@at_least(Role.OWNER)
def archive(request: HtmxRequest, export_id: UUID) -> HttpResponseBase:
    """Download the archive of an export."""
    exports = Export.objects.visible_to(request.member).exclude(file="").select_related("workspace")
    return archive_of(request, get_object_or_404(exports, pk=export_id))


@require_POST
@at_least(Role.OWNER)
def delete_archive(request: HtmxRequest, export_id: UUID) -> HttpResponse:
    """Delete the archive of an export before it expires."""
    export = get_object_or_404(Export.objects.visible_to(request.member), pk=export_id)
    export_job.delete_archive(export=export, by=request.member)
    return redirect("transfer:transfer")


@require_POST
@at_least(Role.OWNER)
@needs_recent_sign_in("import a workspace")
def new_import(request: HtmxRequest) -> HttpResponse:
    """Upload an archive to import."""
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, form, status=422)
    file = form.cleaned_data["archive"]
    try:
        stored = store(file, filename=file.name or "")
        import_job.request_import(stored=stored, by=request.member)
    except (FileTooLarge, DiskFull, TransferRefused) as refusal:
        form.add_error("archive", str(refusal))
        return _page(request, form, status=507 if isinstance(refusal, DiskFull) else 422)
    next_page = reverse("transfer:transfer")
    # htmx would follow a redirect itself and consume the next page's message.
    return HttpResponseClientRedirect(next_page) if request.htmx else redirect(next_page)


def _page(request: HtmxRequest, form: ImportForm, status: int = 200) -> HttpResponse:
    exports = list(Export.objects.visible_to(request.member).select_related("created_by").order_by("-pk")[:MAX_SHOWN])
    imports = list(Import.objects.visible_to(request.member).select_related("created_by").order_by("-pk")[:MAX_SHOWN])
    context = {
        "export_form": ExportForm(),
        "form": form,
        "exports": exports,
        "imports": imports,
        "content": _content(request),
        "is_moving": any(job.is_active for job in (*exports, *imports)) and not form.is_bound,
    }
    return render(request, "transfer/transfer.html", context, status=status)


def _content(request: HtmxRequest) -> str:
    """Why nothing can be imported here; empty if something can."""
    try:
        refuse_content(request.member.workspace)
    except NotEmpty as refusal:
        return str(refusal)
    return ""
