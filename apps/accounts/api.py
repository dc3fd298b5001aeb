"""Members and invitations over the API.

API tokens are stored in files and environments, so they can't grant access that would outlive them: over REST, nobody becomes an owner, no owner is changed
or removed, and there are no operations for tokens, passwords, and new workspaces. Pages do that, and ask for the password.
"""

from __future__ import annotations

from uuid import UUID

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import invitation_links, membership_changes
from apps.accounts.authentication import IsMember, RecentSignIn
from apps.accounts.models import Invitation, Membership, Role
from apps.accounts.owners import NotOwner
from apps.common.api import Conflict, ListView, MemberView, RequestSerializer

ROLES = {role.name.lower(): role for role in Role}
GIVEN = [name for name, role in ROLES.items() if role != Role.OWNER]
"""Roles that can be assigned over REST."""


class MemberSerializer(serializers.ModelSerializer[Membership]):
    """A member of the workspace, with their role."""

    name = serializers.CharField(source="user.name", read_only=True)
    email = serializers.EmailField(source="user.email", read_only=True)
    role = serializers.SerializerMethodField()

    class Meta:
        model = Membership
        fields = ["id", "name", "email", "role", "created_at"]
        read_only_fields = fields

    def get_role(self, member: Membership) -> str:
        """`annotator`, `reviewer`, `researcher` or `owner`."""
        return Role(member.role).name.lower()


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    """An open invitation."""

    role = serializers.SerializerMethodField()

    class Meta:
        model = Invitation
        fields = ["id", "email", "role", "expires_at", "created_at"]
        read_only_fields = fields

    def get_role(self, invitation: Invitation) -> str:
        """`annotator`, `reviewer`, `researcher` or `owner`."""
        return Role(invitation.role).name.lower()


class InvitationWithLinkSerializer(InvitationSerializer):
    """The same with its link, which is only shown once."""

    link = serializers.CharField(help_text="An invitation link for one person: whoever opens it first joins.")

    class Meta(InvitationSerializer.Meta):
        fields = [*InvitationSerializer.Meta.fields, "link"]
        read_only_fields = fields


class NewInvitationSerializer(RequestSerializer):
    """An invitation to create."""

    email = serializers.EmailField(max_length=254)
    role = serializers.ChoiceField(choices=GIVEN, default="annotator")


class ChangeRoleSerializer(RequestSerializer):
    """A member's new role. Owners are appointed on the page."""

    role = serializers.ChoiceField(choices=GIVEN)


class MembersView(ListView):
    """GET /api/v1/members"""

    needs = Role.RESEARCHER

    @extend_schema(
        operation_id="members_list", summary="List members, newest first", responses=MemberSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Membership.objects.visible_to(self.member).select_related("user"), MemberSerializer)


class _OneMemberView(MemberView):
    needs = Role.OWNER
    permission_classes = [IsMember, RecentSignIn]

    def find(self, membership_id: int) -> Membership:
        rows = Membership.objects.visible_to(self.member).select_related("user", "workspace")
        return get_object_or_404(rows, pk=membership_id)


REFUSALS = (membership_changes.LastOwner, membership_changes.NoMember, membership_changes.IsOwner, NotOwner)


class ChangeRoleView(_OneMemberView):
    """POST /api/v1/members/<id>/role"""

    @extend_schema(
        operation_id="members_change_role",
        summary="Give a member another role",
        request=ChangeRoleSerializer,
        responses={
            200: MemberSerializer,
            400: OpenApiResponse(description="Invalid fields."),
            409: OpenApiResponse(
                description="The person is an owner, who can only be changed on the page, or is no longer a member."
            ),
        },
    )
    def post(self, request: Request, membership_id: int) -> Response:
        membership, form = self.find(membership_id), ChangeRoleSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        role = ROLES[form.validated_data["role"]]
        try:
            membership_changes.change_role(membership=membership, role=role, by=self.member.user, spares_owners=True)
        except REFUSALS as refusal:
            raise Conflict(str(refusal)) from None
        return Response(MemberSerializer(membership).data)


class RemoveMemberView(_OneMemberView):
    """POST /api/v1/members/<id>/remove"""

    @extend_schema(
        operation_id="members_remove",
        summary="Remove a member, with their API tokens; what they judged stays",
        request=None,
        responses={
            200: MemberSerializer,
            409: OpenApiResponse(
                description="The person is an owner, who can only be removed on the page, or is no longer a member."
            ),
        },
    )
    def post(self, request: Request, membership_id: int) -> Response:
        membership = self.find(membership_id)
        answer = MemberSerializer(membership).data
        try:
            membership_changes.remove(membership=membership, by=self.member.user, spares_owners=True)
        except REFUSALS as refusal:
            raise Conflict(str(refusal)) from None
        return Response(answer)


class InvitationsView(ListView):
    """GET, POST /api/v1/invitations"""

    needs = Role.OWNER
    permission_classes = [IsMember, RecentSignIn]
    keeps_answers = False  # responses contain a secret of which only the hash is stored

    @extend_schema(
        operation_id="invitations_list",
        summary="List open invitations, newest first",
        responses=InvitationSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return self.page_of(Invitation.objects.visible_to(self.member).open(), InvitationSerializer)

    @extend_schema(
        operation_id="invitations_create",
        summary="Invite somebody",
        description="Returns a link, which is shown only once and isn't sent by Retrace. Revokes an earlier open invitation for the same address.",
        request=NewInvitationSerializer,
        responses={201: InvitationWithLinkSerializer, 400: OpenApiResponse(description="Invalid fields.")},
    )
    def post(self, request: Request) -> Response:
        form = NewInvitationSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        email, role = form.validated_data["email"], ROLES[form.validated_data["role"]]
        try:
            created = invitation_links.invite(
                workspace=self.member.workspace, email=email, role=role, by=self.member.user
            )
        except invitation_links.AlreadyMember as refusal:
            raise ValidationError({"email": [str(refusal)]}) from None
        except NotOwner:
            raise Http404 from None
        created.invitation.refresh_from_db()
        link = request.build_absolute_uri(reverse("accounts:join", args=[created.secret]))
        answer = {**InvitationSerializer(created.invitation).data, "link": link}
        return Response(answer, status=status.HTTP_201_CREATED)


class RevokeInvitationView(MemberView):
    """POST /api/v1/invitations/<id>/revoke"""

    needs = Role.OWNER
    permission_classes = [IsMember, RecentSignIn]

    @extend_schema(
        operation_id="invitations_revoke",
        summary="End an open invitation",
        request=None,
        responses={200: InvitationSerializer, 409: OpenApiResponse(description="It was used, revoked, or expired.")},
    )
    def post(self, request: Request, invitation_id: UUID) -> Response:
        rows = Invitation.objects.visible_to(self.member).select_related("workspace")
        invitation = get_object_or_404(rows, pk=invitation_id)
        try:
            invitation_links.revoke(invitation=invitation, by=self.member.user)
        except invitation_links.InvitationGone as refusal:
            raise Conflict(str(refusal)) from None
        return Response(InvitationSerializer(invitation).data)
