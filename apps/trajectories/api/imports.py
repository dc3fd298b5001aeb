"""REST API of imports: POST /api/v1/imports, and an import's state and results."""

from __future__ import annotations

from typing import IO, Any, cast
from uuid import UUID

from django.core.files.base import File
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.http import parse_header_parameters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiRequest, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView
from apps.common.downloads import download
from apps.common.idempotency import HEADER, key_of
from apps.jobs import lifecycle
from apps.trajectories.imports import rejected
from apps.trajectories.imports.upload import (
    FileTooLarge,
    StoredFile,
    drop,
    finished_import,
    start_import,
    store,
    unfinished_import,
)
from apps.trajectories.models import ImportBatch


class TooLarge(APIException):
    """413"""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE


class ImportSerializer(serializers.ModelSerializer[ImportBatch]):
    """An import: its progress and results."""

    url = serializers.SerializerMethodField()
    rejected_rows = serializers.SerializerMethodField()
    file = serializers.CharField(source="filename")
    trajectories = serializers.IntegerField(source="trajectory_count")
    tasks = serializers.IntegerField(
        source="task_count", allow_null=True, help_text="Number of tasks of these trajectories; null until it is done."
    )
    steps = serializers.IntegerField(source="step_count")
    duplicates = serializers.IntegerField(source="duplicate_count")
    rejected = serializers.IntegerField(source="rejected_count")
    outcomes = serializers.IntegerField(source="outcome_count")
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="What was left out, or looks wrong: the first of `warning_count`."
    )
    error = serializers.CharField()

    class Meta:
        model = ImportBatch
        fields = [
            *("id", "url", "state", "file", "size", "sha256", "format", "bytes_read"),
            *(
                "trajectories",
                "tasks",
                "steps",
                "duplicates",
                "outcomes",
                "rejected",
                "rejected_rows",
                "warning_count",
                "warnings",
                "error",
            ),
            *("created_at", "started_at", "finished_at"),
        ]
        read_only_fields = fields

    def get_url(self, batch: ImportBatch) -> str:
        """URL of this import, for polling."""
        return reverse("import", kwargs={"batch_id": batch.pk}, request=self.context["request"])

    def get_rejected_rows(self, batch: ImportBatch) -> str:
        """The rejected rows as JSON Lines; `?format=csv` for a spreadsheet."""
        return reverse("import_rejected", kwargs={"batch_id": batch.pk}, request=self.context["request"])


class ImportsView(ListView):
    """Upload a file, or list imports."""

    needs = Role.RESEARCHER
    keeps_answers = False  # an idempotency key identifies an import of the workspace, forever
    # Any body except a form is the file itself and is read by `post` in blocks: no parser may touch it.
    parser_classes = [MultiPartParser]

    @extend_schema(
        operation_id="imports_create",
        summary="Import a file of trajectories",
        description=(
            "The body is the file (JSON Lines, JSON, .traj, .eval, Parquet, CSV; gzip or zstd too; zip or tar of such files), or a multipart form with a part `file`. The same file, "
            "or the same Idempotency-Key, returns the existing import (200) and starts no other."
        ),
        parameters=[
            OpenApiParameter(
                "filename",
                OpenApiTypes.STR,
                description="The file's name; some formats take the policy from it.",
            ),
            OpenApiParameter("policy", OpenApiTypes.STR, description="Policy of trajectories that don't name one."),
            OpenApiParameter(HEADER, OpenApiTypes.STR, OpenApiParameter.HEADER),
        ],
        request={
            "application/octet-stream": OpenApiRequest(OpenApiTypes.BINARY),
            "multipart/form-data": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}},
        },
        responses={
            202: ImportSerializer,
            200: ImportSerializer,
            413: OpenApiResponse(description="The file is larger than this server accepts."),
            507: OpenApiResponse(description="The server's disk is full; nothing was kept."),
        },
    )
    def post(self, request: Request) -> Response:
        key = key_of(request)
        existing = ImportBatch.objects.visible_to(self.member).filter(idempotency_key=key).first() if key else None
        if existing:
            return self._answer(existing, status.HTTP_200_OK)
        stored = self._store(request)
        existing = self._same_file(stored)
        if existing:
            drop(stored)
            return self._answer(existing, status.HTTP_200_OK)
        batch = start_import(
            workspace_id=self.member.workspace_id,
            stored=stored,
            created_by=self.member.user,
            policy_name=request.query_params.get("policy", ""),
            idempotency_key=key,
        )
        return self._answer(batch, status.HTTP_202_ACCEPTED)

    @extend_schema(
        operation_id="imports_list", summary="List imports, newest first", responses=ImportSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.page_of(ImportBatch.objects.visible_to(self.member), ImportSerializer)

    def _store(self, request: Request) -> StoredFile:
        try:
            if (request.content_type or "").startswith("multipart/"):
                part = request.FILES.get("file")
                if part is None:
                    raise ValidationError({"file": ["The form has no part called `file`."]})
                return store(cast("File[Any]", part), filename=part.name or "")
            # The Django request handles a chunked body, which has no Content-Length, like any other.
            return store(cast("IO[bytes]", request._request), filename=_filename(request))
        except FileTooLarge as refusal:
            raise TooLarge(str(refusal)) from None

    def _same_file(self, stored: StoredFile) -> ImportBatch | None:
        workspace_id, sha256 = self.member.workspace_id, stored.sha256
        return unfinished_import(workspace_id=workspace_id, sha256=sha256) or finished_import(
            workspace_id=workspace_id, sha256=sha256
        )

    def _answer(self, batch: ImportBatch, code: int) -> Response:
        data = ImportSerializer(batch, context={"request": self.request}).data
        return Response(data, status=code, headers={"Location": data["url"]})


class ImportView(MemberView):
    """One import."""

    needs = Role.RESEARCHER

    @extend_schema(operation_id="imports_read", summary="Read an import", responses=ImportSerializer)
    def get(self, request: Request, batch_id: UUID) -> Response:
        batch = get_object_or_404(ImportBatch.objects.visible_to(self.member), pk=batch_id)
        seconds = {} if not batch.is_active else {"Retry-After": "1"}
        return Response(ImportSerializer(batch, context={"request": request}).data, headers=seconds)


class CancelImportView(MemberView):
    """Stop an import."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="imports_cancel",
        summary="Stop an import; what was imported stays",
        request=None,
        responses={200: ImportSerializer, 409: OpenApiResponse(description="It's over already.")},
    )
    def post(self, request: Request, batch_id: UUID) -> Response:
        batch = get_object_or_404(ImportBatch.objects.visible_to(self.member), pk=batch_id)
        try:
            lifecycle.cancel(batch, by=self.member.user)
        except lifecycle.NotActive as refusal:
            raise Conflict(str(refusal)) from None
        batch.refresh_from_db()
        return Response(ImportSerializer(batch, context={"request": request}).data)


class RetryImportView(MemberView):
    """Continue an import."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="imports_retry",
        summary="Resume a failed or cancelled import where it stopped",
        request=None,
        responses={200: ImportSerializer, 409: OpenApiResponse(description="It can't be resumed.")},
    )
    def post(self, request: Request, batch_id: UUID) -> Response:
        batch = get_object_or_404(ImportBatch.objects.visible_to(self.member), pk=batch_id)
        try:
            lifecycle.resume(batch, by=self.member.user)
        except lifecycle.NotResumable as refusal:
            raise Conflict(str(refusal)) from None
        batch.refresh_from_db()
        return Response(ImportSerializer(batch, context={"request": request}).data)


class RejectedRowsView(MemberView):
    """The rows that an import couldn't read."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="imports_rejected",
        summary="Records that couldn't be read: line, reason, expected, excerpt",
        parameters=[OpenApiParameter("format", OpenApiTypes.STR, enum=list(rejected.FORMS), default="jsonl")],
        responses={(200, "application/x-ndjson"): OpenApiTypes.STR, (200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request, batch_id: UUID) -> HttpResponseBase:
        batch = get_object_or_404(ImportBatch.objects.visible_to(self.member), pk=batch_id)
        form = request.query_params.get("format", "jsonl")
        if form not in rejected.FORMS:
            raise ValidationError({"format": [f"{form!r} is not known; use {' or '.join(rejected.FORMS)}."]})
        written = rejected.FORMS[form]
        return download(written.parts(batch), filename=f"rejected-{batch.pk}.{form}", content_type=written.content_type)


def _filename(request: Request) -> str:
    """The file name, from the query or the Content-Disposition header."""
    if filename := request.query_params.get("filename"):
        return filename
    _, parameters = parse_header_parameters(request.headers.get("Content-Disposition", ""))
    return parameters.get("filename", "upload")
