"""The API token page."""

import re

import pytest

from apps.accounts import api_tokens
from apps.accounts.models import ApiToken, Role
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


def test_a_token_is_shown_once_and_opens_the_api(owner):
    client = as_(owner)
    made = client.post("/settings/tokens/new/", {"name": "laptop", "lifetime": "30"})
    secret = re.search(r"rt_[\w-]{43}", made.content.decode())[0]
    assert "no-store" in made["Cache-Control"]
    listed = client.get("/settings/tokens/").content.decode()
    assert secret not in listed
    assert secret[:9] in listed
    assert ApiToken.objects.get().expires_at is not None


def test_a_token_without_an_end_is_a_choice(owner):
    as_(owner).post("/settings/tokens/new/", {"name": "laptop", "lifetime": "never"})
    assert ApiToken.objects.get().expires_at is None


def test_only_ones_own_tokens_can_be_revoked_except_by_an_owner(owner):
    researcher = factories.member(Role.RESEARCHER, of=owner.workspace)
    other = factories.member(Role.RESEARCHER, of=owner.workspace)
    token = api_tokens.issue_token(membership=researcher, name="laptop").token
    url = f"/settings/tokens/{token.pk}/revoke/"
    assert as_(other).post(url).status_code == 404
    assert as_(factories.member(Role.OWNER)).post(url).status_code == 404
    assert ApiToken.objects.usable().exists()
    assert as_(owner).post(url).status_code == 302
    assert not ApiToken.objects.usable().exists()


def test_twenty_tokens_an_hour_are_enough(owner):
    client = as_(owner)
    for number in range(20):
        assert client.post("/settings/tokens/new/", {"name": f"t{number}", "lifetime": "30"}).status_code == 200
    refused = client.post("/settings/tokens/new/", {"name": "one more", "lifetime": "30"})
    assert refused.status_code == 429
    assert refused["Retry-After"] == "800"  # 2,800 s into an hour
    assert ApiToken.objects.count() == 20
