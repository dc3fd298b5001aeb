"""Authentication of API requests with bearer tokens."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils.timezone import now

from apps.accounts import api_tokens, membership_changes
from apps.accounts.authentication import UNKNOWN_TOKENS
from apps.accounts.models import ApiToken, Role
from tests import factories

pytestmark = pytest.mark.django_db
URL = "/api/v1/imports"


def ask(secret):
    return Client().get(URL, headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture
def member():
    return factories.member(Role.RESEARCHER)


def test_a_token_opens_the_api_and_remembers_when(member):
    made = api_tokens.issue_token(membership=member, name="laptop")
    assert ask(made.secret).status_code == 200
    made.token.refresh_from_db()
    assert now() - made.token.last_used_at < timedelta(minutes=1)


def test_without_a_token_or_a_session_the_api_is_closed():
    refused = Client().get(URL)
    assert refused.status_code == 401
    assert refused["WWW-Authenticate"] == "Bearer"


def test_revoked_expired_and_made_up_tokens_are_refused(member):
    revoked = api_tokens.issue_token(membership=member, name="revoked")
    api_tokens.revoke_token(token=revoked.token, by=member.user)
    expired = api_tokens.issue_token(membership=member, name="expired", lifetime=timedelta(days=1))
    ApiToken.objects.filter(pk=expired.token.pk).update(expires_at=now())
    for secret in (revoked.secret, expired.secret, "rt_made-up", ""):
        assert ask(secret).status_code == 401, secret


def test_a_token_ends_with_its_membership_and_with_its_account(member):
    first = api_tokens.issue_token(membership=member, name="laptop")
    other = factories.member(Role.RESEARCHER)
    second = api_tokens.issue_token(membership=other, name="laptop")
    membership_changes.remove(membership=member, by=member.user)
    other.user.is_active = False
    other.user.save()
    assert ask(first.secret).status_code == ask(second.secret).status_code == 401


def test_an_address_that_keeps_sending_unknown_tokens_has_to_wait(member):
    known = api_tokens.issue_token(membership=member, name="laptop")
    for _ in range(UNKNOWN_TOKENS.tries):
        assert ask("rt_made-up").status_code == 401
    refused = ask("rt_made-up")
    assert refused.status_code == 429
    assert refused["Retry-After"] == "20"  # 1,000,000 s is 40 s into a minute
    assert ask(known.secret).status_code == 200  # others with the same IP address aren't locked out
