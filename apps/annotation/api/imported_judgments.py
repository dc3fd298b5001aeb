"""REST for judgments in imported files: the values of their columns, and creating a queue from them."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.annotation.api.of_queue import QueueSerializer
from apps.annotation.imported_judgments.adoptable import survey
from apps.annotation.imported_judgments.conversion import adopt, selection_of
from apps.annotation.kinds import KINDS
from apps.annotation.kinds.meanings import Column, Columns, Meanings
from apps.annotation.models import Annotator, Queue
from apps.annotation.queues.sources import Selection
from apps.annotation.refusals import Refusal
from apps.common.api import Conflict, MemberView, RequestSerializer
from apps.common.names import refuse_invisible
from apps.trajectories.models import ImportBatch


class ColumnValueSerializer(serializers.Serializer[Any]):
    """A value, and how often it occurs in the first trajectories."""

    value = serializers.JSONField(help_text="Text, a number or a boolean.")
    times = serializers.IntegerField()


class ValueColumnSerializer(serializers.Serializer[Any]):
    """Columns that share the same small set of values."""

    names = serializers.ListField(child=serializers.CharField())
    values = ColumnValueSerializer(many=True)


class ExtraColumnsSerializer(serializers.Serializer[Any]):
    """The extra columns found in the first trajectories of an import."""

    runs = serializers.IntegerField(help_text="Number of trajectories examined, from the first on.")
    sides = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="What each pair's sides are called; null: no pairs."
    )
    verdicts = ValueColumnSerializer(
        many=True, help_text="Columns that may hold verdicts on pairs or, without pairs, on trajectories."
    )
    labels = ValueColumnSerializer(many=True, help_text="Columns that label steps.")
    indexes = serializers.ListField(
        child=serializers.CharField(), help_text="Columns of whole numbers, which may be step indexes."
    )
    names = serializers.ListField(child=serializers.CharField(), help_text="Columns that may name the annotator.")


class MeaningSerializer(RequestSerializer):
    """The meaning of one value."""

    value = serializers.JSONField(help_text="The value in the file: text, a number, or a boolean.")
    means = serializers.CharField(
        help_text="For a pair, `3` (the first side is much better) to `-3`, or `both_bad`; for a trajectory, `1` or `-1`; for a step, `1`, `0` or `-1`."
    )


class ColumnSerializer(RequestSerializer):
    """A column that holds verdicts: the meanings of its values or, for a column of first errors, how steps are numbered."""

    name = serializers.CharField(max_length=300)
    values = MeaningSerializer(many=True, default=list)
    is_somebody = serializers.BooleanField(
        default=False, help_text="The column belongs to one annotator, named after it."
    )
    of_steps = serializers.BooleanField(default=False, help_text="It's a column of steps, not of the trajectory.")
    first = serializers.ChoiceField(
        [0, 1],
        default=None,
        allow_null=True,
        help_text="For a column of first errors: its number for the first step.",
    )


class NewImportedJudgmentsSerializer(RequestSerializer):
    """The meanings of a file's columns."""

    name = serializers.CharField(validators=[refuse_invisible], max_length=200, help_text="The name of the queue.")
    kind = serializers.ChoiceField(Queue.Kind.choices)
    origin = serializers.CharField(
        max_length=300,
        default="",
        allow_blank=True,
        help_text="The source of the judgments; if empty, the name of the file.",
    )
    judged_by = serializers.ChoiceField(
        [(kind.value, kind.label) for kind in (Annotator.Kind.PERSON, Annotator.Kind.MODEL)], default="person"
    )
    who = serializers.CharField(
        max_length=300, default="", allow_blank=True, help_text="The column that names the annotator."
    )
    columns = ColumnSerializer(many=True, allow_empty=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        meanings = KINDS[attrs["kind"]].imported_values
        for column in attrs["columns"]:
            for value in column["values"]:
                if value["means"] not in meanings:
                    problem = (
                        f"“{value['means']}” isn't a possible meaning here; expected one of {', '.join(meanings)}."
                    )
                    raise serializers.ValidationError({"columns": [f"{column['name']}: {problem}"]})
        return attrs


class ImportJudgmentsView(MemberView):
    """GET, POST /api/v1/imports/<id>/judgments"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="import_judgments_read",
        summary="List the columns of an import that may hold judgments of trajectories, pairs, or steps",
        responses={200: ExtraColumnsSerializer, 409: OpenApiResponse(description="The import is not finished.")},
    )
    def get(self, request: Request, batch_id: UUID) -> Response:
        summary = survey(self.member.workspace, self._selection(self._batch(batch_id)))
        shown = {"verdicts": _columns_data(summary.verdicts), "labels": _columns_data(summary.labels)}
        return Response(ExtraColumnsSerializer({**vars(summary), **shown}).data)

    @extend_schema(
        operation_id="import_judgments_create",
        summary="Create judgments from the columns of an import, given the meanings of their values",
        description="A worker fills a closed queue; judgments count like those made here, by annotators shown as imported.",
        request=NewImportedJudgmentsSerializer,
        responses={
            201: QueueSerializer,
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(description="The import is not finished, or no value has a meaning."),
        },
    )
    def post(self, request: Request, batch_id: UUID) -> Response:
        batch = self._batch(batch_id)
        serializer = NewImportedJudgmentsSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        fields = serializer.validated_data
        meanings = Meanings(fields["kind"], tuple(map(_column, fields["columns"])), fields["who"])
        try:
            queue = adopt(
                workspace=self.member.workspace,
                selection=self._selection(batch),
                name=fields["name"],
                source=fields["origin"] or batch.filename,
                meanings=meanings,
                judged_by=fields["judged_by"],
                by=self.member.user,
            )
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None
        return Response(QueueSerializer(queue, context={"member": self.member}).data, status=status.HTTP_201_CREATED)

    def _batch(self, batch_id: UUID) -> ImportBatch:
        return get_object_or_404(ImportBatch.objects.visible_to(self.member), pk=batch_id)

    def _selection(self, batch: ImportBatch) -> Selection:
        try:
            return selection_of(batch)
        except Refusal as refusal:
            raise Conflict(str(refusal)) from None


def _columns_data(columns: tuple[Columns, ...]) -> list[dict[str, Any]]:
    return [
        {
            "names": group.names,
            "values": [{"value": json.loads(value), "times": times} for value, times in group.values],
        }
        for group in columns
    ]


def _column(column_fields: dict[str, Any]) -> Column:
    means = {json.dumps(entry["value"]): entry["means"] for entry in column_fields["values"]}
    return Column(
        column_fields["name"], means, column_fields["is_somebody"], column_fields["of_steps"], column_fields["first"]
    )
