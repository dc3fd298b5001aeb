"""REST for episodes: runners lease them, play each in the session it comes with, and finish that session."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.authentication import AgentRateThrottle
from apps.accounts.models import ApiToken, Role
from apps.common.api import MemberView, RequestSerializer
from apps.gateway.addresses import base_url_of
from apps.training import episodes
from apps.training.episodes import Lease


class LeaseRequestSerializer(RequestSerializer):
    """The episodes that a runner can play."""

    runner = serializers.CharField(
        max_length=200, help_text="The runner's name, as shown on the page of the training run."
    )
    environment = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=100,
        help_text="The environment of the tasks; if omitted, any.",
    )
    run = serializers.UUIDField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Only episodes of this training run; if omitted, of any.",
    )
    rollouts = serializers.UUIDField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Only episodes of this batch of rollouts; if omitted, of any.",
    )


class EpisodeSerializer(serializers.Serializer[Lease]):
    """An episode to play and its session. The agent sends its chats to `base_url` with `api_key`, as it would to OpenAI."""

    id = serializers.UUIDField(source="episode.pk")
    run = serializers.UUIDField(
        source="episode.batch.run_id",
        allow_null=True,
        help_text="The id of the training run that the episode belongs to.",
    )
    rollouts = serializers.UUIDField(
        source="episode.batch.rollouts_id",
        allow_null=True,
        help_text="The id of the batch of rollouts that it belongs to instead.",
    )
    run_name = serializers.SerializerMethodField(help_text="The name of the training run or of the batch of rollouts.")
    moment = serializers.CharField(
        source="episode.batch.moment", help_text="The point in the training run whose weights act, such as “step 3”."
    )
    task = serializers.JSONField(source="episode.task", help_text="The task, in the form that it has in a trajectory.")
    attempt = serializers.IntegerField(source="episode.attempt")
    session = serializers.UUIDField(source="opened.session.pk", help_text="The session to finish or renew.")
    base_url = serializers.SerializerMethodField()
    api_key = serializers.CharField(source="opened.key", help_text="The API key of the session, valid for it alone.")
    lease_seconds = serializers.IntegerField(
        source="episode.batch.lease_seconds",
        help_text="After this long without a call or a renewal, the episode is leased to another runner.",
    )
    max_calls = serializers.IntegerField(source="episode.batch.most_calls")

    def get_run_name(self, lease: Lease) -> str:
        """The training run's name, or a name for the rollouts without their policy's, which an experiment's runners aren't told."""
        episode = lease.episode
        return episode.batch.run.name if episode.batch.run else f"Rollouts in {episode.environment}"

    def get_base_url(self, lease: Lease) -> str:
        """The base URL for the agent's client library."""
        return base_url_of(self.context["request"])


class EpisodeLeaseView(MemberView):
    """Lease the next episode to a runner."""

    needs = Role.RESEARCHER
    throttle_classes = (AgentRateThrottle,)
    keeps_answers = False  # the answer holds the session's key, of which only the hash is stored

    @extend_schema(
        operation_id="episodes_lease",
        summary="Lease an episode of a training run or of rollouts for a runner",
        description="Finish or abandon its session when it's over. If the response is lost, there's nothing to do: the lease expires.",
        request=LeaseRequestSerializer,
        responses={200: EpisodeSerializer, 204: OpenApiResponse(description="No episode is waiting for a runner.")},
    )
    def post(self, request: Request) -> Response:
        form = LeaseRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data: dict[str, Any] = form.validated_data
        episode = episodes.lease(
            member=self.member,
            runner=data["runner"],
            environment=data["environment"],
            run_id=data["run"],
            rollouts_id=data["rollouts"],
            token=request.auth if isinstance(request.auth, ApiToken) else None,
        )
        if episode is None:
            return Response(status=status.HTTP_204_NO_CONTENT)
        return Response(EpisodeSerializer(episode, context={"request": request}).data)
