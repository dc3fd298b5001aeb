"""GET /api/v1/lineage/: where a policy or a training run comes from, and what was trained on it, on rows, or on a judgment."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.annotation.models import Item
from apps.common.api import MemberView
from apps.datasets.models import Version
from apps.policies.models import Policy
from apps.training.lineage import (
    MAX_LINES,
    Learner,
    Lines,
    Origin,
    Use,
    judgment_for,
    learners_from,
    learners_from_versions,
    origins_of,
    origins_of_run,
    use_of,
)
from apps.training.models import Run, RunReward
from apps.trajectories.models import Trajectory


class NamedReferenceSerializer(serializers.Serializer[Any]):
    """Something with a name."""

    id = serializers.UUIDField(source="pk")
    name = serializers.CharField(source="__str__")


class TermSerializer(serializers.ModelSerializer[RunReward]):
    """The reward term through which a policy influenced a run."""

    class Meta:
        model = RunReward
        fields = ["term", "component", "weight"]


class AncestorSerializer(serializers.Serializer[Origin]):
    """A policy, indented below its descendant."""

    depth = serializers.IntegerField()
    policy = NamedReferenceSerializer()
    kind = serializers.CharField(source="policy.kind")
    reward = TermSerializer(
        allow_null=True,
        help_text="The reward term that it was in the training run above; null: the training run started from it.",
    )
    run = NamedReferenceSerializer(allow_null=True, help_text="The training run that made it.")
    version = NamedReferenceSerializer(allow_null=True, help_text="The rows that this training run learned from.")
    judgments = serializers.IntegerField(help_text="Number of judgments in those rows.")
    is_repeated = serializers.BooleanField(help_text="It's already listed further up, with everything below it.")


class DescendantSerializer(serializers.Serializer[Learner]):
    """A training run and the policy it made, indented below what it was trained from."""

    depth = serializers.IntegerField()
    run = NamedReferenceSerializer(allow_null=True)
    algorithm = serializers.CharField(source="run.algorithm", default=None, allow_null=True)
    state = serializers.CharField(source="run.state", default=None, allow_null=True)
    policy = NamedReferenceSerializer(allow_null=True, help_text="The policy that it made.")
    reward = TermSerializer(allow_null=True, help_text="The reward term through which it was trained.")
    version = NamedReferenceSerializer(allow_null=True, help_text="The rows that it learned from.")
    is_repeated = serializers.BooleanField()


class LineageSerializer(serializers.Serializer[Any]):
    """Ancestors and descendants."""

    origins = AncestorSerializer(many=True)
    versions = NamedReferenceSerializer(
        many=True, help_text="Versions whose rows hold the judgment, or one of the item's or trajectory's."
    )
    learners = DescendantSerializer(many=True)
    has_more = serializers.BooleanField(help_text=f"Whether a list has more than the {MAX_LINES} entries given here.")


class LineageView(MemberView):
    """Base of the lineage views."""

    needs = Role.RESEARCHER

    def answer(self, *, origins: Lines[Origin] | None = None, use: Use) -> Response:
        lists: dict[str, Lines[Any]] = {
            "origins": origins or Lines([]),
            "versions": use.versions,
            "learners": use.learners,
        }
        has_more = any(lines.has_more for lines in lists.values())
        return Response(LineageSerializer({**lists, "has_more": has_more}).data)


class PolicyLineageView(LineageView):
    """Lineage of a policy."""

    @extend_schema(
        operation_id="lineage_policy",
        summary="Where a policy comes from, and what learned from it",
        responses=LineageSerializer,
    )
    def get(self, request: Request, policy_id: UUID) -> Response:
        policy = get_object_or_404(Policy.objects.visible_to(self.member), pk=policy_id)
        return self.answer(origins=origins_of(policy), use=Use(Lines([]), learners_from(policy)))


class RunLineageView(LineageView):
    """Lineage of a training run."""

    @extend_schema(operation_id="lineage_run", summary="Where a training run comes from", responses=LineageSerializer)
    def get(self, request: Request, run_id: UUID) -> Response:
        runs = Run.objects.visible_to(self.member).select_related("base", "version__dataset", "result")
        run = get_object_or_404(runs, pk=run_id)
        versions = Lines([run.version] if run.version else [])
        learners = learners_from(run.result) if run.result else Lines[Learner]([])
        return self.answer(origins=origins_of_run(run), use=Use(versions, learners))


class VersionLineageView(LineageView):
    """Runs trained on a version's rows."""

    @extend_schema(operation_id="lineage_version", summary="What learned from a version", responses=LineageSerializer)
    def get(self, request: Request, version_id: UUID) -> Response:
        versions = Version.objects.visible_to(self.member).select_related("dataset")
        version = get_object_or_404(versions.defer("card", "recipe", "files"), pk=version_id)
        return self.answer(use=Use(Lines([version]), learners_from_versions([version.pk])))


class JudgmentLineageView(LineageView):
    """Runs trained on one judgment."""

    @extend_schema(operation_id="lineage_judgment", summary="What learned from a judgment", responses=LineageSerializer)
    def get(self, request: Request, judgment_id: UUID) -> Response:
        if judgment_for(self.member, judgment_id) is None:
            raise Http404
        return self.answer(use=use_of(judgment=judgment_id))


class ItemLineageView(LineageView):
    """Runs trained on an item's judgments."""

    @extend_schema(
        operation_id="lineage_item", summary="What learned from the judgments of an item", responses=LineageSerializer
    )
    def get(self, request: Request, item_id: int) -> Response:
        item = get_object_or_404(Item.objects.filter(queue__workspace=self.member.workspace_id), pk=item_id)
        return self.answer(use=use_of(item=item.pk))


class TrajectoryLineageView(LineageView):
    """Runs trained on a trajectory's judgments."""

    @extend_schema(
        operation_id="lineage_trajectory",
        summary="What learned from the judgments of a trajectory",
        responses=LineageSerializer,
    )
    def get(self, request: Request, trajectory_id: UUID) -> Response:
        trajectory = get_object_or_404(Trajectory.objects.visible_to(self.member).only("id"), pk=trajectory_id)
        return self.answer(use=use_of(trajectory=trajectory.pk))
