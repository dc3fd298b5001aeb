"""Datasets over REST: list, freeze, read the card, download the rows."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.common.api import Conflict, MemberView, RequestSerializer
from apps.common.names import refuse_invisible
from apps.datasets import freezing
from apps.datasets.card import markdown, public_card
from apps.datasets.files.archive import PROCESS_LABELS, STEPWISE, stepwise_rows
from apps.datasets.files.export import CONTENT_TYPES, export
from apps.datasets.models import Dataset, Split, Version
from apps.datasets.queries import datasets_for_list
from apps.datasets.recipe import CHOICES, DEFAULT_SHARES, KINDS, MAX_SEED, BadRecipe, Recipe
from contract.schemas import row_schemas

Chosen = serializers.ChoiceField


class DatasetSerializer(serializers.ModelSerializer[Dataset]):
    """A named series of versions."""

    version_count = serializers.IntegerField(read_only=True)
    latest = serializers.IntegerField(read_only=True, allow_null=True, help_text="Number of the newest frozen version.")

    class Meta:
        model = Dataset
        fields = ("id", "name", "description", "license", "created_at", "version_count", "latest")
        read_only_fields = ("created_at",)


class NewDatasetSerializer(RequestSerializer):
    """A dataset to create."""

    name = serializers.CharField(validators=[refuse_invisible], max_length=200)
    description = serializers.CharField(default="", allow_blank=True)
    license = serializers.CharField(default="", allow_blank=True, max_length=200)


class RecipeSerializer(RequestSerializer):
    """The rules of a version. The same rules over the same judgments give identical bytes."""

    queues = serializers.ListField(child=serializers.UUIDField(), help_text="Queues whose judgments go in.")
    row_type = Chosen(CHOICES["row_type"], default="preference", help_text="The row type; see the table in the docs.")
    judgments = Chosen(CHOICES["judgments"], default="majority", help_text="One row per pair, or one per judgment.")
    minimum_margin = serializers.IntegerField(
        default=1, min_value=1, max_value=1000, help_text="With majority: the winner's minimum lead in votes."
    )
    aggregation = Chosen(CHOICES["aggregation"], default="votes", help_text="How the soft label is estimated.")
    adjudicated = Chosen(
        CHOICES["adjudicated"],
        default="win",
        help_text="Whether a reviewer's decision overrides the votes or is ignored.",
    )
    minimum_confidence = serializers.IntegerField(
        default=50, min_value=50, max_value=100, help_text="With majority: minimum soft label in percent."
    )
    minimum_strength = serializers.IntegerField(
        default=1,
        min_value=1,
        max_value=3,
        help_text="The minimum strength of a preference: 1 slightly, 2 clearly, 3 much better.",
    )
    ties = Chosen(CHOICES["ties"], default="count", help_text="Ties make no row: count them in the card, or drop them.")
    both_bad = Chosen(
        CHOICES["both_bad"],
        default="count",
        help_text="Judgments “both bad” make no row: count them in the card, or drop them.",
    )
    failed_pairs = Chosen(
        CHOICES["failed_pairs"],
        default="keep",
        help_text="Pairs of two trajectories that failed: kept, or left out.",
    )
    annotator_kinds = serializers.MultipleChoiceField(
        choices=KINDS, default=set(KINDS), help_text="The kinds of annotators whose judgments count."
    )
    without_annotators = serializers.ListField(
        child=serializers.UUIDField(), default=list, help_text="Annotators whose judgments are excluded."
    )
    flagged = Chosen(
        CHOICES["flagged"], default="keep", help_text="Items that an annotator flagged: kept, or left out as of now."
    )
    without_items = serializers.ListField(
        child=serializers.IntegerField(),
        default=None,
        allow_null=True,
        help_text="Ids of items to leave out, in place of those flagged now.",
    )
    train = serializers.IntegerField(default=DEFAULT_SHARES["train"], min_value=0, max_value=100)
    validation = serializers.IntegerField(default=DEFAULT_SHARES["validation"], min_value=0, max_value=100)
    test = serializers.IntegerField(default=DEFAULT_SHARES["test"], min_value=0, max_value=100)
    seed = serializers.IntegerField(default=0, min_value=0, max_value=MAX_SEED)
    surrogates = Chosen(
        CHOICES["surrogates"], default="replace", help_text="Lone surrogates: U+FFFD instead, or their JSON escapes."
    )
    until = serializers.DateTimeField(
        default=None, allow_null=True, help_text="Only judgments made by then; if omitted, now."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Runs the recipe's own validation, so that pages and the API return the same errors."""
        plain = {name: list(value) if isinstance(value, set) else value for name, value in attrs.items()}
        try:
            return {"recipe": Recipe.from_json(plain)}
        except BadRecipe as error:
            raise ValidationError({error.field: [error.problem]}) from error


class FileSerializer(serializers.Serializer[Any]):
    """One file of a version."""

    rows = serializers.IntegerField()
    bytes = serializers.IntegerField()
    sha256 = serializers.CharField()


class VersionSerializer(serializers.ModelSerializer[Version]):
    """A version: judgments frozen into rows."""

    url = serializers.SerializerMethodField(help_text="The path of its page.")
    state = serializers.ChoiceField(
        choices=[choice for choice in Version.State.choices if choice[0] != Version.State.WAITING],
        source="state_so_far",
        read_only=True,
    )
    error = serializers.CharField(read_only=True)
    files = serializers.DictField(
        child=serializers.DictField(child=FileSerializer()),
        read_only=True,
        help_text="The files, by format and then by split.",
    )
    row_counts = serializers.DictField(child=serializers.IntegerField(), read_only=True)

    class Meta:
        model = Version
        fields = (
            "id", "dataset", "number", "state", "row_type", "row_counts", "rows_done", "rows_expected", "content_hash", "files", "recipe",
            "error", "created_at", "frozen_at", "url",
        )  # fmt: skip
        read_only_fields = fields

    def get_url(self, version: Version) -> str:
        return reverse("datasets:version", args=[version.dataset_id, version.number])


class DatasetView(MemberView):
    """Base of the views below a dataset."""

    needs = Role.RESEARCHER

    def dataset(self, key: object) -> Dataset:
        return get_object_or_404(datasets_for_list(self.member), pk=key)

    def version(self, key: object, number: int) -> Version:
        versions = Version.objects.visible_to(self.member).select_related("dataset")
        return get_object_or_404(versions, dataset=key, number=number)

    def frozen(self, key: object, number: int) -> Version:
        """Raises Conflict if the version isn't frozen, since it has no files yet."""
        version = self.version(key, number)
        if version.is_active:
            raise Conflict(f"Version {number} is still being frozen: {version.rows_done} rows so far. Ask again soon.")
        if version.state == Version.State.FAILED:
            raise Conflict(f"Version {number} failed: {version.error}")
        return version


class DatasetList(DatasetView, ListAPIView[Dataset]):
    """All datasets of the workspace, newest first."""

    serializer_class = DatasetSerializer

    def get_queryset(self) -> Any:
        return datasets_for_list(self.member)

    @extend_schema(operation_id="datasets_list", summary="List datasets")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="datasets_create",
        summary="Create a dataset",
        request=NewDatasetSerializer,
        responses={201: DatasetSerializer},
    )
    def post(self, request: Request) -> Response:
        serializer = NewDatasetSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            dataset = freezing.create_dataset(**serializer.validated_data, by=self.member)
        except freezing.NameTaken as error:
            raise ValidationError({"name": [str(error)]}) from error
        return Response(DatasetSerializer(self.dataset(dataset.pk)).data, status=status.HTTP_201_CREATED)


class DatasetDetail(DatasetView):
    """One dataset."""

    @extend_schema(operation_id="datasets_read", summary="Read a dataset", responses=DatasetSerializer)
    def get(self, request: Request, dataset_id: str) -> Response:
        return Response(DatasetSerializer(self.dataset(dataset_id)).data)


class VersionList(DatasetView, ListAPIView[Version]):
    """The versions of a dataset, newest first."""

    serializer_class = VersionSerializer

    def get_queryset(self) -> Any:
        return Version.objects.visible_to(self.member).filter(dataset=self.dataset(self.kwargs["dataset_id"]))

    @extend_schema(operation_id="versions_list", summary="List a dataset's versions")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="versions_freeze",
        summary="Freeze the next version",
        description="Returns at once; a worker builds the version. Poll it until its state is `frozen` or `failed`.",
        request=RecipeSerializer,
        responses={202: VersionSerializer},
    )
    def post(self, request: Request, dataset_id: str) -> Response:
        dataset = self.dataset(dataset_id)
        serializer = RecipeSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            version = freezing.request_version(
                dataset=dataset, recipe=serializer.validated_data["recipe"], by=self.member
            )
        except BadRecipe as error:
            raise ValidationError({error.field: [error.problem]}) from error
        except freezing.NothingToFreeze as error:
            raise Conflict(str(error)) from error
        location = reverse("v1:version", args=[dataset.pk, version.number])
        return Response(
            VersionSerializer(version).data, status=status.HTTP_202_ACCEPTED, headers={"Location": location}
        )


class VersionDetail(DatasetView):
    """One version."""

    @extend_schema(operation_id="versions_read", summary="Read a version", responses=VersionSerializer)
    def get(self, request: Request, dataset_id: str, number: int) -> Response:
        return Response(VersionSerializer(self.version(dataset_id, number)).data)


class VersionCard(DatasetView):
    """A version's contents, its annotators, and their agreement."""

    @extend_schema(
        operation_id="versions_card",
        summary="Read a version's card",
        parameters=[OpenApiParameter("format", enum=["json", "markdown"], default="json")],
        responses={
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, "text/markdown"): OpenApiTypes.STR,
            409: OpenApiResponse(description="Not frozen yet."),
        },
    )
    def get(self, request: Request, dataset_id: str, number: int) -> HttpResponseBase:
        version = self.frozen(dataset_id, number)
        if _choice(request, "format", ["json", "markdown"]) == "markdown":
            return HttpResponse(markdown(version), content_type="text/markdown; charset=utf-8")
        return Response(public_card(version))


class VersionRows(DatasetView):
    """Download the rows of one split."""

    @extend_schema(
        operation_id="versions_rows",
        summary="Download rows",
        description=(
            "One split of a frozen version, as TRL reads it: messages (`prompt`, `chosen` and `rejected`; `prompt` and `completion`; "
            "or `messages`), `tools`, what was judged, and where each row comes from. "
            "The entity tag is the file's SHA-256. `Range` resumes a broken download; JSON Lines is compressed for a client "
            "that accepts gzip. `stepwise`, of process labels only, is JSON Lines with the columns `prompt`, `completions` and `labels`, made "
            "while it is sent: it has no entity tag and no ranges."
        ),
        parameters=[
            OpenApiParameter("format", enum=[*CONTENT_TYPES, STEPWISE], default="jsonl"),
            OpenApiParameter("split", enum=Split.values, default="train"),
            OpenApiParameter("Range", location="header", description="One range of bytes, like `bytes=1000-`."),
        ],
        responses={
            **{(code, kind): OpenApiTypes.BINARY for code in (200, 206) for kind in CONTENT_TYPES.values()},
            (200, CONTENT_TYPES["jsonl"]): {"title": "A line of the file", "oneOf": row_schemas()},
            304: OpenApiResponse(description="The client has this very file."),
            409: OpenApiResponse(description="Not frozen yet."),
            416: OpenApiResponse(description="The range begins after the file's end."),
        },
    )
    def get(self, request: Request, dataset_id: str, number: int) -> HttpResponseBase:
        format = _choice(request, "format", [*CONTENT_TYPES, STEPWISE])
        split = _choice(request, "split", Split.values)
        version = self.frozen(dataset_id, number)
        if format != STEPWISE:
            return export(request._request, version, format=format, split=split)
        if version.row_type != PROCESS_LABELS:
            problem = (
                f"Only versions of process labels can be read as {STEPWISE}; this one holds {version.row_type} rows."
            )
            raise ValidationError({"format": [problem]})
        return stepwise_rows(request._request, version, split)


def _choice(request: Request, name: str, choices: list[str]) -> str:
    """A query parameter with one of `choices`; the first is the default."""
    choice = request.query_params.get(name, choices[0])
    if choice not in choices:
        raise ValidationError({name: [f"{choice!r} is unknown; expected one of {', '.join(choices)}."]})
    return choice
