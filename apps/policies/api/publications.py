"""POST /api/v1/policies/<id>/publications"""

from __future__ import annotations

from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.authentication import IsMember, RecentSignIn
from apps.accounts.models import Role
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer
from apps.common.names import refuse_invisible
from apps.policies.models import Policy, Publication
from apps.policies.publication import PublishingRefused, publish_policy, roll_back_publication
from apps.policies.registration import MAX_REPLICAS, PolicyRefused, register_server


class PublicationSerializer(serializers.ModelSerializer[Publication]):
    """A policy published under a name: its progress, and the result of the canary."""

    server = serializers.CharField(source="endpoint.base_url", default="", read_only=True)
    error = serializers.CharField(read_only=True)
    replicas = serializers.ListField(
        source="endpoint.replicas", child=serializers.CharField(), default=list, read_only=True
    )

    class Meta:
        model = Publication
        fields = [
            *(
                "id",
                "policy",
                "way",
                "name",
                "served_name",
                "server",
                "replicas",
                "state",
                "is_rollback",
                "location",
                "canary",
                "error",
            ),
            *("created_at", "live_at", "ended_at"),
        ]
        read_only_fields = fields


class NewPublicationSerializer(RequestSerializer):
    """How and where to publish a policy."""

    way = serializers.ChoiceField(choices=Publication.Way.choices)
    name = serializers.CharField(
        validators=[refuse_invisible],
        max_length=80,
        help_text="What it's called here; servers know it by `served_name`.",
    )
    server = serializers.CharField(
        max_length=300,
        required=False,
        default="",
        help_text="vLLM's address with its version, such as /v1; none for a folder.",
    )
    replicas = serializers.ListField(
        child=serializers.CharField(max_length=300),
        required=False,
        default=list,
        max_length=MAX_REPLICAS,
        help_text="Addresses of additional servers to serve the same policy.",
    )
    key_variable = serializers.CharField(
        max_length=60, required=False, default="", help_text="The workers' environment variable with the API key."
    )


class PublicationsView(ListView):
    """A policy's publications."""

    needs = Role.RESEARCHER
    permission_classes = [IsMember, RecentSignIn]

    @extend_schema(
        operation_id="publications_create",
        summary="Publish a policy",
        description="A worker carries it out. The publication is live once the canary has proven that the server answers with this policy.",
        request=NewPublicationSerializer,
        responses={202: PublicationSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request, policy_id: UUID) -> Response:
        policy = get_object_or_404(Policy.objects.visible_to(self.member), pk=policy_id)
        form = NewPublicationSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        try:
            endpoint = (
                register_server(
                    workspace=policy.workspace,
                    base_url=data["server"],
                    replicas=data["replicas"],
                    key_variable=data["key_variable"],
                )
                if data["server"]
                else None
            )
            publication = publish_policy(
                policy=policy, way=data["way"], name=data["name"], endpoint=endpoint, by=self.member.user
            )
        except (PublishingRefused, PolicyRefused) as refusal:
            field = {"endpoint": "server", "base_url": "server"}.get(refusal.field, refusal.field)
            raise ValidationError({field or "detail": [str(refusal)]}) from None
        return Response(PublicationSerializer(publication).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(
        operation_id="publications_list",
        summary="List where a policy was published, newest first",
        responses=PublicationSerializer(many=True),
    )
    def get(self, request: Request, policy_id: UUID) -> Response:
        policy = get_object_or_404(Policy.objects.visible_to(self.member), pk=policy_id)
        return self.page_of(policy.publications.select_related("endpoint"), PublicationSerializer)


class PublicationView(MemberView):
    """One publication."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="publications_read", summary="Read the state of a publication", responses=PublicationSerializer
    )
    def get(self, request: Request, publication_id: UUID) -> Response:
        publication = _find(self, publication_id)
        headers = {"Retry-After": "2"} if publication.is_active else {}
        return Response(PublicationSerializer(publication).data, headers=headers)


class RollBackView(MemberView):
    """Roll back a publication."""

    needs = Role.RESEARCHER
    permission_classes = [IsMember, RecentSignIn]

    @extend_schema(
        operation_id="publications_roll_back",
        summary="Roll back to the previous policy of this name",
        request=None,
        responses={202: PublicationSerializer, 409: OpenApiResponse(description="There is nothing to go back to.")},
    )
    def post(self, request: Request, publication_id: UUID) -> Response:
        try:
            back = roll_back_publication(publication=_find(self, publication_id), by=self.member.user)
        except PublishingRefused as refusal:
            raise Conflict(str(refusal)) from None
        return Response(PublicationSerializer(back).data, status=status.HTTP_202_ACCEPTED)


def _find(view: MemberView, publication_id: UUID) -> Publication:
    return get_object_or_404(
        Publication.objects.visible_to(view.member).select_related("endpoint", "policy"), pk=publication_id
    )
