from datetime import timedelta

import pytest
from django.utils.timezone import now

from apps.accounts import api_tokens
from apps.accounts.models import ApiToken, AuditEntry, Role
from tests import factories

pytestmark = pytest.mark.django_db


def test_only_the_digest_and_a_prefix_of_a_token_are_stored():
    made = api_tokens.issue_token(membership=factories.member(), name="laptop")
    stored = ApiToken.objects.values().get()
    assert made.secret.startswith("rt_")
    assert made.secret not in str(stored)
    assert stored["prefix"] == made.secret[:9]
    assert len(made.secret) >= 3 + 43  # 32 random bytes


def test_a_token_ends_after_its_lifetime():
    made = api_tokens.issue_token(membership=factories.member(), name="laptop", lifetime=timedelta(days=30))
    assert made.token.expires_at - now() == pytest.approx(timedelta(days=30), abs=timedelta(seconds=10))
    assert ApiToken.objects.usable().exists()
    ApiToken.objects.update(expires_at=now())
    assert not ApiToken.objects.usable().exists()
    assert ApiToken.objects.get().is_expired


def test_a_revoked_token_is_unusable_at_once_and_revoked_once():
    member = factories.member()
    token = api_tokens.issue_token(membership=member, name="laptop").token
    api_tokens.revoke_token(token=token, by=member.user)
    assert not ApiToken.objects.usable().exists()
    with pytest.raises(api_tokens.TokenGone):
        api_tokens.revoke_token(token=token, by=member.user)


def test_the_audit_names_tokens_without_their_secret():
    made = api_tokens.issue_token(membership=factories.member(), name="laptop")
    entry = AuditEntry.objects.get()
    assert entry.subject == f"laptop ({made.secret[:9]}…)"
    assert made.secret not in str(entry.detail)


def test_researchers_see_their_own_tokens_and_owners_those_of_the_workspace():
    owner = factories.member(Role.OWNER)
    researcher = factories.member(Role.RESEARCHER, of=owner.workspace)
    reviewer = factories.member(Role.REVIEWER, of=owner.workspace)
    theirs = api_tokens.issue_token(membership=researcher, name="theirs").token
    api_tokens.issue_token(membership=owner, name="mine")
    api_tokens.issue_token(membership=factories.member(), name="elsewhere")
    assert [token.name for token in ApiToken.objects.visible_to(owner).order_by("pk")] == ["theirs", "mine"]
    assert list(ApiToken.objects.visible_to(researcher)) == [theirs]
    assert not ApiToken.objects.visible_to(reviewer).exists()
