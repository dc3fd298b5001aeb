"""URLs of people and workspaces."""

from django.urls import path

from apps.accounts import api as rest
from apps.accounts.views import audit, invitations, members, profile, sign_in, tokens, workspaces

app_name = "accounts"
urlpatterns = [
    path("sign-in/", sign_in.sign_in, name="sign_in"),
    path("sign-out/", sign_in.sign_out, name="sign_out"),
    path("join/<str:secret>/", invitations.join, name="join"),
    path("workspaces/", workspaces.workspaces, name="workspaces"),
    path("workspaces/new/", workspaces.found, name="found"),
    path("workspaces/<uuid:workspace_id>/enter/", workspaces.switch, name="switch"),
    path("workspaces/<uuid:workspace_id>/leave/", workspaces.leave, name="leave"),
    path("profile/", profile.profile, name="profile"),
    path("profile/name/", profile.change_name, name="change_name"),
    path("profile/password/", profile.change_password, name="change_password"),
    path("profile/preferences/", profile.preferences, name="preferences"),
    path("settings/", members.settings, name="settings"),
    path("settings/members/", members.members, name="members"),
    path("settings/members/<int:membership_id>/role/", members.change_role, name="change_role"),
    path("settings/members/<int:membership_id>/remove/", members.remove, name="remove"),
    path("settings/invitations/", members.invite, name="invite"),
    path("settings/invitations/<uuid:invitation_id>/revoke/", members.revoke_invitation, name="revoke_invitation"),
    path("settings/tokens/", tokens.tokens, name="tokens"),
    path("settings/tokens/new/", tokens.issue, name="issue_token"),
    path("settings/tokens/<uuid:token_id>/revoke/", tokens.revoke, name="revoke_token"),
    path("settings/audit/", audit.audit, name="audit"),
]

api = [
    path("members", rest.MembersView.as_view(), name="members"),
    path("members/<int:membership_id>/role", rest.ChangeRoleView.as_view(), name="member_role"),
    path("members/<int:membership_id>/remove", rest.RemoveMemberView.as_view(), name="member_remove"),
    path("invitations", rest.InvitationsView.as_view(), name="invitations"),
    path("invitations/<uuid:invitation_id>/revoke", rest.RevokeInvitationView.as_view(), name="invitation_revoke"),
]
