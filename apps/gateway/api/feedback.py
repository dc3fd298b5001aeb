"""User feedback over the API: the only address that browsers on other sites may post to, and the keys for it."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from redis.exceptions import RedisError
from rest_framework import serializers, status
from rest_framework.authentication import get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, ParseError, Throttled, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.authentication import BearerTokenAuthentication, IsMember, RecentSignIn, digest_of
from apps.accounts.models import ApiToken, Role
from apps.common import fair_share
from apps.common.api import ListView, MemberView, RequestSerializer
from apps.common.json_body import StrictJSONParser
from apps.common.limits import Limit, TooManyTries
from apps.common.names import refuse_invisible
from apps.gateway import feedback
from apps.gateway.models import Feedback, FeedbackKey, Session
from apps.gateway.sessions import SessionRefused

MAX_BYTES = 256 * 1024
"""Maximum request size: an edited answer of multi-byte characters, plus field names."""
PER_KEY = Limit("feedback-key", tries=600, seconds=60)
PER_SESSION = Limit("feedback-session", tries=20, seconds=60)
CORS = {
    "Access-Control-Allow-Origin": "*",  # cookies are ignored here, so there is no CSRF
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "86400",
}


class FeedbackKeyAuthentication(BearerTokenAuthentication):
    """A feedback key, or a researcher's API token, for feedback sent from a server."""

    def authenticate(self, request: Request) -> Any:
        scheme, _, secret = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip().startswith(feedback.MARK):
            return super().authenticate(request)
        key = FeedbackKey.objects.usable().filter(digest=digest_of(secret.strip())).first()
        if key is None:
            raise AuthenticationFailed("This feedback key is unknown or revoked.")
        return None, key


class BoundedJSONParser(StrictJSONParser):
    """Limits the request size, since the key is public."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        body = stream.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise ParseError(f"The request is larger than {MAX_BYTES // 1024} kB.")
        return super().parse(BytesIO(body), media_type, parser_context)


class FeedbackSerializer(RequestSerializer):
    """A user's feedback on a session: a thumb, a comment, an edited answer, or several of these."""

    session = serializers.UUIDField()
    thumb = serializers.ChoiceField(choices=["up", "down"], required=False, allow_null=True, default=None)
    comment = serializers.CharField(
        max_length=feedback.MAX_COMMENT_LENGTH, required=False, allow_blank=True, default="", trim_whitespace=True
    )
    edited_answer = serializers.CharField(
        max_length=feedback.MAX_ANSWER_LENGTH,
        required=False,
        allow_blank=True,
        default="",
        trim_whitespace=False,
        help_text="What the agent should have answered.",
    )
    call = serializers.UUIDField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Which answer was edited; left out: the last one by then.",
    )


class FeedbackReceiptSerializer(serializers.ModelSerializer[Feedback]):
    """A receipt. Nothing can be read with a feedback key."""

    class Meta:
        model = Feedback
        fields = ["id"]


class FeedbackView(APIView):
    """Receives users' feedback on sessions."""

    authentication_classes = [FeedbackKeyAuthentication]
    permission_classes = []
    throttle_classes = []
    parser_classes = [BoundedJSONParser]
    keeps_answers = False  # a session's latest feedback counts, so repeating a request is harmless

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """CORS: pages of any site may post here and read the response."""
        answer: HttpResponseBase = (
            HttpResponse(status=204) if request.method == "OPTIONS" else super().dispatch(request, *args, **kwargs)
        )
        for name, value in CORS.items():
            answer.headers[name] = value
        return answer

    @extend_schema(
        operation_id="feedback_create",
        auth=[{"bearer": []}],  # type: ignore[list-item]  # OpenAPI wants an object, whatever the stub says
        summary="Send a user's feedback on a session",
        description=(
            "With a feedback key (`rf_…`), which is safe in a browser because it allows nothing else, or with a researcher's API token. "
            "Pages of any site may send it. The latest feedback of a session counts."
        ),
        request=FeedbackSerializer,
        responses={201: FeedbackReceiptSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        workspace_id, key = self._allowed(request)
        _share(request, workspace_id)
        form = FeedbackSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        session = get_object_or_404(Session.objects.of_policies(), pk=data["session"], workspace=workspace_id)
        _count(PER_SESSION, str(session.pk))
        try:
            recorded = feedback.record_feedback(
                session=session,
                key=key,
                thumb={"up": 1, "down": -1}.get(data["thumb"] or ""),
                comment=data["comment"],
                edited=data["edited_answer"],
                call_id=data["call"],
            )
        except SessionRefused as refusal:
            raise ValidationError({refusal.field or "detail": [str(refusal)]}) from None
        return Response(FeedbackReceiptSerializer(recorded).data, status=status.HTTP_201_CREATED)

    def _allowed(self, request: Request) -> tuple[UUID, FeedbackKey | None]:
        """The workspace that the key or token gives access to."""
        match request.auth:
            case FeedbackKey() as key:
                _count(PER_KEY, str(key.pk))
                return key.workspace_id, key
            case ApiToken() as token if token.membership.is_researcher:
                _count(PER_KEY, str(token.pk))
                return token.membership.workspace_id, None
        raise NotAuthenticated


def _share(request: Request, workspace_id: UUID) -> None:
    try:
        fair_share.enter(request._request, fair_share.of_workspace(workspace_id))
    except TooManyTries as refusal:
        raise Throttled(wait=refusal.retry_after) from refusal


def _count(limit: Limit, key: str) -> None:
    try:
        limit.count(key)
    except TooManyTries as refusal:
        raise Throttled(wait=refusal.retry_after) from refusal
    except RedisError:  # the counter is down, which mustn't lock anybody out
        return


class FeedbackKeySerializer(serializers.ModelSerializer[FeedbackKey]):
    """A key with which users' browsers send feedback."""

    class Meta:
        model = FeedbackKey
        fields = ["id", "name", "prefix", "created_at", "revoked_at"]
        read_only_fields = fields


class FeedbackKeyWithSecretSerializer(FeedbackKeySerializer):
    """A new feedback key, including the key itself, which is shown only once."""

    key = serializers.CharField()

    class Meta(FeedbackKeySerializer.Meta):
        fields = [*FeedbackKeySerializer.Meta.fields, "key"]
        read_only_fields = fields


class NewFeedbackKeySerializer(RequestSerializer):
    """A name for where the key is used."""

    name = serializers.CharField(validators=[refuse_invisible], max_length=100)


class FeedbackKeysView(ListView):
    """The workspace's feedback keys."""

    needs = Role.RESEARCHER
    permission_classes = [IsMember, RecentSignIn]
    keeps_answers = False  # responses contain a secret of which only the hash is stored

    @extend_schema(
        operation_id="feedback_keys_list",
        summary="List feedback keys, newest first",
        responses=FeedbackKeySerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(FeedbackKey.objects.visible_to(self.member), FeedbackKeySerializer)

    @extend_schema(
        operation_id="feedback_keys_create",
        summary="Create a feedback key, which is safe to embed in web pages",
        request=NewFeedbackKeySerializer,
        responses={201: FeedbackKeyWithSecretSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        form = NewFeedbackKeySerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            created = feedback.create_key(member=self.member, name=form.validated_data["name"])
        except feedback.KeysEnough as refusal:
            raise ValidationError({refusal.field: [str(refusal)]}) from None
        created.key.refresh_from_db()
        answer = {**FeedbackKeySerializer(created.key).data, "key": created.secret}
        return Response(answer, status=status.HTTP_201_CREATED)


class RevokeFeedbackKeyView(MemberView):
    """Revokes a key."""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="feedback_keys_revoke",
        summary="Revoke a feedback key",
        request=None,
        responses={200: FeedbackKeySerializer},
    )
    def post(self, request: Request, feedback_key_id: UUID) -> Response:
        rows = FeedbackKey.objects.visible_to(self.member).select_related("workspace")
        key = get_object_or_404(rows, pk=feedback_key_id)
        feedback.revoke_key(key=key, by=self.member.user)
        key.refresh_from_db()
        return Response(FeedbackKeySerializer(key).data)
