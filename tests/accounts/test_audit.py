"""The audit page."""

import re

import pytest

from apps.accounts import api_tokens, audit
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


def test_the_audit_shows_details_of_any_name(owner):
    audit.record(workspace=owner.workspace, actor=owner.user, action="made queue", subject="q", items=96, keys=1)
    page = as_(owner).get("/settings/audit/")
    assert page.status_code == 200
    assert "items: 96" in page.content.decode()


def test_the_audit_pages_by_cursor(owner):
    for number in range(60):
        api_tokens.issue_token(membership=owner, name=f"token-{number:02}")
    client = as_(owner)
    first = client.get("/settings/audit/").content.decode()
    assert "token-59" in first
    assert "token-09" not in first
    older = re.search(r'href="(\?cursor=[^"]+)" rel="next"', first)[1].replace("&amp;", "&")
    second = client.get("/settings/audit/" + older).content.decode()
    assert "token-09" in second
    assert "token-10" not in second
    assert 'rel="prev"' in second
