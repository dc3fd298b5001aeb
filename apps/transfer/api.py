"""REST for exports of a workspace, and imports of archives."""

from __future__ import annotations

from typing import IO, Any, cast
from uuid import UUID

from django.core.files.base import File
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiRequest, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.authentication import IsMember, RecentSignIn
from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer
from apps.trajectories.imports.upload import FileTooLarge, StoredFile, store
from apps.transfer import export_job, import_job
from apps.transfer.download import archive_of
from apps.transfer.models import Export, Import
from apps.transfer.refusals import TransferRefused

COMMON = ("id", "state", "size", "sha256", "rows_done", "rows_expected", "counts", "error")


class ArchiveTooLarge(APIException):
    """413"""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE


class ExportSerializer(serializers.ModelSerializer[Export]):
    """An export of the workspace: its progress, and the facts of its archive."""

    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Rows of each member of the archive.")
    error = serializers.CharField(help_text="Why there is no archive.")
    has_archive = serializers.SerializerMethodField()

    class Meta:
        model = Export
        fields = [*COMMON, "include_weights", "has_archive", "expires_at", "created_at", "finished_at"]
        read_only_fields = fields

    def get_has_archive(self, export: Export) -> bool:
        """Whether the archive can be downloaded. It's deleted when it expires."""
        return bool(export.file)


class NewExportSerializer(RequestSerializer):
    """What goes into the archive."""

    include_weights = serializers.BooleanField(
        default=False, help_text="Whether the models of training runs go into it."
    )


class ExportsView(ListView):
    """GET, POST /api/v1/workspace/exports"""

    needs = Role.OWNER
    permission_classes = [IsMember, RecentSignIn]

    @extend_schema(
        operation_id="exports_list",
        summary="List exports of the workspace, newest first",
        responses=ExportSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Export.objects.visible_to(self.member), ExportSerializer)

    @extend_schema(
        operation_id="exports_create",
        summary="Export everything in the workspace as one archive",
        description="A worker writes it. While one with the same content is being written, that one is the answer.",
        request=NewExportSerializer,
        responses={202: ExportSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        serializer = NewExportSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        export = export_job.request_export(by=self.member, **serializer.validated_data)
        export.refresh_from_db()
        return Response(ExportSerializer(export).data, status=status.HTTP_202_ACCEPTED)


class _OneExportView(MemberView):
    needs = Role.OWNER

    def find(self, export_id: UUID) -> Export:
        return get_object_or_404(Export.objects.visible_to(self.member).select_related("workspace"), pk=export_id)


class ExportView(_OneExportView):
    """GET /api/v1/workspace/exports/<id>"""

    @extend_schema(operation_id="exports_read", summary="Read an export of the workspace", responses=ExportSerializer)
    def get(self, request: Request, export_id: UUID) -> Response:
        export = self.find(export_id)
        return Response(ExportSerializer(export).data, headers={"Retry-After": "1"} if export.is_active else {})


class ArchiveView(_OneExportView):
    """GET /api/v1/workspace/exports/<id>/archive"""

    @extend_schema(
        operation_id="exports_archive",
        summary="Download the archive of an export; ranges are supported",
        responses={
            (200, "application/zip"): OpenApiTypes.BINARY,
            409: OpenApiResponse(description="There is no archive: it isn't written yet, or it was deleted."),
        },
    )
    def get(self, request: Request, export_id: UUID) -> HttpResponseBase:
        export = self.find(export_id)
        if not export.file:
            raise Conflict(
                "There is no archive: it isn't written yet, or it was deleted. Read the export, or ask for another."
            )
        return archive_of(request._request, export)


class DeleteArchiveView(_OneExportView):
    """POST /api/v1/workspace/exports/<id>/delete"""

    @extend_schema(
        operation_id="exports_delete",
        summary="Delete the archive of an export before it expires",
        request=None,
        responses={
            200: ExportSerializer,
            409: OpenApiResponse(description="The archive is still being written."),
        },
    )
    def post(self, request: Request, export_id: UUID) -> Response:
        export = self.find(export_id)
        if export.is_active:
            raise Conflict(
                "The archive is still being written. Cancel the job with "
                f"POST /api/v1/jobs/workspace_exports/{export.pk}/cancel, or wait and delete it then."
            )
        export_job.delete_archive(export=export, by=self.member)
        export.refresh_from_db()
        return Response(ExportSerializer(export).data)


class PersonSerializer(serializers.Serializer[Any]):
    """Somebody who was a member of the exported workspace and isn't one here."""

    email = serializers.CharField()
    name = serializers.CharField()
    role = serializers.CharField(help_text="What they were there. The import gives nobody a role.")


class WorkspaceImportSerializer(serializers.ModelSerializer[Import]):
    """The import of an archive into the workspace."""

    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Number of imported rows of each table.")
    people = PersonSerializer(many=True, help_text="People in the archive, whom you may want to invite.")
    error = serializers.CharField(help_text="Why nothing was imported.")

    class Meta:
        model = Import
        fields = [*COMMON, "filename", "people", "created_at", "finished_at"]
        read_only_fields = fields


class WorkspaceImportsView(ListView):
    """GET, POST /api/v1/workspace/imports"""

    needs = Role.OWNER
    permission_classes = [IsMember, RecentSignIn]
    keeps_answers = False  # a second import into the same workspace is refused anyway
    # Any body except a form is the archive itself and is read by `post` in blocks: no parser may touch it.
    parser_classes = [MultiPartParser]

    @extend_schema(
        operation_id="workspace_imports_list",
        summary="List imports of archives into the workspace, newest first",
        responses=WorkspaceImportSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Import.objects.visible_to(self.member), WorkspaceImportSerializer)

    @extend_schema(
        operation_id="workspace_imports_create",
        summary="Import the archive of a workspace into this one, which must have no content",
        description="The body is the archive, or a multipart form with a part `file`. A worker imports it, completely or not at all.",
        parameters=[OpenApiParameter("filename", OpenApiTypes.STR, description="The file's name, for display.")],
        request={
            "application/octet-stream": OpenApiRequest(OpenApiTypes.BINARY),
            "multipart/form-data": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}},
        },
        responses={
            202: WorkspaceImportSerializer,
            409: OpenApiResponse(description="The workspace has content, or an archive is being imported into it."),
            413: OpenApiResponse(description="The archive is larger than this server accepts."),
            507: OpenApiResponse(description="The server's disk is full; nothing was kept."),
        },
    )
    def post(self, request: Request) -> Response:
        stored = self._store(request)
        try:
            job = import_job.request_import(stored=stored, by=self.member)
        except TransferRefused as refusal:
            raise Conflict(str(refusal)) from None
        job.refresh_from_db()
        return Response(WorkspaceImportSerializer(job).data, status=status.HTTP_202_ACCEPTED)

    def _store(self, request: Request) -> StoredFile:
        try:
            if (request.content_type or "").startswith("multipart/"):
                part = request.FILES.get("file")
                if part is None:
                    raise ValidationError({"file": ["The form has no part called `file`."]})
                return store(cast("File[Any]", part), filename=part.name or "")
            name = request.query_params.get("filename", "workspace.zip")
            return store(cast("IO[bytes]", request._request), filename=name)
        except FileTooLarge as refusal:
            raise ArchiveTooLarge(str(refusal)) from None


class WorkspaceImportView(MemberView):
    """GET /api/v1/workspace/imports/<id>"""

    needs = Role.OWNER

    @extend_schema(
        operation_id="workspace_imports_read",
        summary="Read the import of an archive",
        responses=WorkspaceImportSerializer,
    )
    def get(self, request: Request, archive_import_id: UUID) -> Response:
        job = get_object_or_404(Import.objects.visible_to(self.member), pk=archive_import_id)
        return Response(WorkspaceImportSerializer(job).data, headers={"Retry-After": "1"} if job.is_active else {})
