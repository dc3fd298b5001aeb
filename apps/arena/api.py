"""REST for experiments: start, read, stop, and promote one of the two policies."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from apps.accounts.models import Role
from apps.arena import lifecycle
from apps.arena.forms import ExperimentForm, LiveExperimentForm, PromotionForm, RecordedExperimentForm
from apps.arena.live_feed import CantFeed, start_live_experiment
from apps.arena.models import Experiment
from apps.arena.queries import figures_of
from apps.arena.recorded import NothingInCommon, start_recorded_experiment
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer, cleaned
from apps.common.names import refuse_invisible
from apps.policies import promotions
from apps.trajectories.rollouts.rollout_batches import RolloutRefused


class ExperimentSerializer(serializers.ModelSerializer[Experiment]):
    """A blind comparison: its plan, fixed when it began, and its verdict once it has ended."""

    url = serializers.SerializerMethodField()

    class Meta:
        model = Experiment
        fields = [
            *("id", "url", "name", "environment", "policy_a", "policy_b", "rollouts_a", "rollouts_b", "split", "queue"),
            *("plan", "state", "verdict", "error", "created_at", "stopped_at"),
        ]
        read_only_fields = fields

    def get_url(self, experiment: Experiment) -> str:
        """The address to poll."""
        return reverse("experiment", kwargs={"experiment_id": experiment.pk}, request=self.context["request"])


class ExperimentFiguresSerializer(ExperimentSerializer):
    """An experiment with its current or final figures. Rates come with 95% intervals that stay valid when checked repeatedly."""

    standing = serializers.SerializerMethodField()

    class Meta(ExperimentSerializer.Meta):
        fields = [*ExperimentSerializer.Meta.fields, "standing"]
        read_only_fields = fields

    def get_standing(self, experiment: Experiment) -> dict[str, Any]:
        """tally, win_rate of A, outcome, items and items_judged, alike (indistinguishable pairs, which count as ties), success_a, success_b, success_difference, cost_a, cost_b (sessions, dollars, and mean, the dollars of a session; null without sessions)."""
        return figures_of(experiment).as_evidence()


class NewExperimentSerializer(RequestSerializer):
    """An experiment to start."""

    name = serializers.CharField(validators=[refuse_invisible], max_length=200)
    policy_a = serializers.UUIDField(required=False, help_text="The first policy, usually the champion.")
    policy_b = serializers.UUIDField(required=False, help_text="The second policy, usually the challenger.")
    trajectories = serializers.ChoiceField(
        choices=["new", "recorded", "live"],
        default="new",
        help_text="New rollouts in a built-in or served environment, or by runners in one of your own; trajectories that exist already, or sessions of a traffic split as they end.",
    )
    split = serializers.UUIDField(
        required=False,
        help_text="The traffic split of a live one, whose two arms are compared; in place of policies and environment.",
    )
    environment = serializers.CharField(
        max_length=100,
        required=False,
        allow_blank=True,
        help_text="With recorded trajectories, an empty string stands for tasks without an environment.",
    )
    tasks = serializers.IntegerField(default=40, help_text="Tasks that both attempt, or have attempted; 2 to 2000.")
    held_out_only = serializers.BooleanField(
        default=False, help_text="Only with recorded trajectories; new rollouts always use held-out tasks."
    )
    levels = serializers.ListField(
        child=serializers.CharField(max_length=20),
        default=list,
        help_text="If omitted, the environment's default levels.",
    )
    samples = serializers.IntegerField(default=1, help_text="Trajectories per task; 1 to 16.")
    steps = serializers.IntegerField(default=20, help_text="An episode is cut off after this many steps; 1 to 200.")
    overlap = serializers.IntegerField(default=1, help_text="Different people for each pair; 1 to 20.")
    min_tasks = serializers.IntegerField(
        default=10, help_text="Minimum number of judged tasks before the rule may end it."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        needed = {"split"} if attrs["trajectories"] == "live" else {"policy_a", "policy_b", "environment"}
        if missing := needed - attrs.keys():
            raise ValidationError({name: ["This field is required."] for name in sorted(missing)})
        return attrs


class NewPromotionSerializer(RequestSerializer):
    """The new champion, and the reason."""

    policy = serializers.UUIDField(help_text="The policy to promote, one of the two compared.")
    reason = serializers.CharField(max_length=2000)


class PromotionSerializer(serializers.Serializer[Any]):
    """The current champion of an environment."""

    environment = serializers.CharField()
    champion = serializers.UUIDField()


STARTS: dict[str, tuple[Any, Any]] = {
    "new": (ExperimentForm, lifecycle.start_experiment),
    "recorded": (RecordedExperimentForm, start_recorded_experiment),
    "live": (LiveExperimentForm, start_live_experiment),
}
"""The form and the function for each source of trajectories."""


class ExperimentsView(ListView):
    """The workspace's experiments."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="experiments_create",
        summary="Start a blind comparison of two policies",
        description="Both attempt the same held-out tasks, drawn by a fresh seed, have attempted them already, or attempt them in sessions of a traffic split (`trajectories`); people then judge the pairs blind.",
        request=NewExperimentSerializer,
        responses={201: ExperimentSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        serializer = NewExperimentSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        data = serializer.validated_data
        form_class, start = STARTS[data.pop("trajectories")]
        form = form_class(data, member=self.member)
        cleaned(form)
        try:
            experiment = start(workspace=self.member.workspace, **form.plan, by=self.member.user)
        except RolloutRefused as refusal:
            raise ValidationError({"detail": [str(refusal)]}) from None
        except NothingInCommon as refusal:
            raise ValidationError({"policy_b": [str(refusal)]}) from None
        except CantFeed as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        answer = ExperimentSerializer(experiment, context={"request": request}).data
        return Response(answer, status=status.HTTP_201_CREATED, headers={"Location": answer["url"]})

    @extend_schema(
        operation_id="experiments_list",
        summary="List experiments, newest first",
        responses=ExperimentSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Experiment.objects.visible_to(self.member), ExperimentSerializer)


class _OneExperiment(MemberView):
    needs = Role.RESEARCHER

    def find(self, pk: UUID) -> Experiment:
        related = ("policy_a", "policy_b", "queue", "rollouts_a", "rollouts_b", "workspace", "split")
        return get_object_or_404(Experiment.objects.visible_to(self.member).select_related(*related), pk=pk)


class ExperimentView(_OneExperiment):
    """One experiment."""

    @extend_schema(
        operation_id="experiments_read",
        summary="Read an experiment with its current figures",
        responses=ExperimentFiguresSerializer,
    )
    def get(self, request: Request, experiment_id: UUID) -> Response:
        return Response(ExperimentFiguresSerializer(self.find(experiment_id), context={"request": request}).data)


class StopView(_OneExperiment):
    """End an experiment before its rule does."""

    @extend_schema(
        operation_id="experiments_stop",
        summary="End an experiment early; its verdict says so",
        request=None,
        responses={200: ExperimentFiguresSerializer, 409: OpenApiResponse(description="It isn't being labeled.")},
    )
    def post(self, request: Request, experiment_id: UUID) -> Response:
        try:
            lifecycle.stop_experiment(experiment=self.find(experiment_id), by=self.member.user)
        except lifecycle.NotRunning as refusal:
            raise Conflict(str(refusal)) from None
        return Response(ExperimentFiguresSerializer(self.find(experiment_id), context={"request": request}).data)


class PromoteView(_OneExperiment):
    """Make one of the two policies the champion."""

    @extend_schema(
        operation_id="experiments_promote",
        summary="Make one of the two policies the champion, on the current evidence",
        request=NewPromotionSerializer,
        responses={200: PromotionSerializer, 409: OpenApiResponse(description="It's already the champion.")},
    )
    def post(self, request: Request, experiment_id: UUID) -> Response:
        experiment = self.find(experiment_id)
        serializer = NewPromotionSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        data = cleaned(PromotionForm(serializer.validated_data, experiment=experiment))
        try:
            lifecycle.promote_from(
                experiment=experiment, policy=data["policy"], by=self.member.user, reason=data["reason"]
            )
        except promotions.AlreadyChampion as refusal:
            raise Conflict(str(refusal)) from None
        champion = {"environment": experiment.environment, "champion": data["policy"].pk}
        return Response(PromotionSerializer(champion).data)
