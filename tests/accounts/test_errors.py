"""Error pages."""

from unittest.mock import Mock

import pytest
import redis
from django.db import OperationalError
from django.test import Client
from psycopg.errors import DiskFull
from redis._parsers.base import BaseParser

from apps.accounts.models import Membership, Role
from apps.common import disk
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


def test_a_missing_page_offers_the_other_workspaces_and_comes_back_to_it(owner):
    there = Membership.objects.create(user=owner.user, workspace=factories.workspace(name="There"), role=Role.OWNER)
    ben = factories.member(of=there.workspace)
    client = as_(owner)
    url = f"/settings/members/{ben.pk}/role/"
    missing = client.post(url, {"role": "2"})
    assert missing.status_code == 404
    page = missing.content.decode()
    assert "Look in another workspace" in page
    assert f'action="/workspaces/{there.workspace_id}/enter/"' in page
    assert f'value="{url}"' in page
    assert owner.workspace.name not in page


def test_an_unknown_address_of_the_api_answers_in_json(owner):
    answer = as_(owner).get("/api/v1/nothing")
    assert answer.status_code == 404
    assert answer.json() == {"detail": "There is no such endpoint. See /api/docs/."}


def test_changes_need_a_token_of_the_page(owner):
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner.user)
    refused = client.post(f"/settings/members/{owner.pk}/remove/")
    assert refused.status_code == 403
    assert "This page was out of date" in refused.content.decode()


@pytest.mark.parametrize(
    "error", [OperationalError("the connection is closed"), redis.ConnectionError(), redis.TimeoutError()]
)
def test_while_a_service_is_away_pages_and_api_say_when_to_try_again(owner, monkeypatch, error):
    client = as_(owner)
    client.raise_request_exception = False
    monkeypatch.setattr("apps.accounts.navigation.reverse", Mock(side_effect=error))
    monkeypatch.setattr("apps.policies.api.policies.champions_of", Mock(side_effect=error))
    page, answer = client.get("/"), client.get("/api/v1/policies")
    assert (page.status_code, page["Retry-After"]) == (503, "5")
    assert "Part of the server is unavailable" in page.content.decode()
    assert '<a class="button primary" href="">Try again</a>' in page.content.decode()
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert answer.json() == {
        "detail": "The database, the message broker, or the storage of files isn't responding. Try again."
    }


def refused_write() -> OperationalError:
    """Raises the error that a view gets if PostgreSQL's disk is full."""
    error = OperationalError("could not extend file")
    error.__cause__ = DiskFull('could not extend file "base/5/16384": No space left on device')
    return error


@pytest.mark.parametrize("error", [refused_write(), BaseParser.parse_error("MISCONF Errors writing to the AOF file")])
def test_a_full_disk_is_said_in_words(owner, monkeypatch, error):
    client = as_(owner)
    client.raise_request_exception = False
    monkeypatch.setattr("apps.accounts.navigation.reverse", Mock(side_effect=error))
    monkeypatch.setattr("apps.policies.api.policies.champions_of", Mock(side_effect=error))
    page, answer = client.get("/"), client.get("/api/v1/policies")
    assert (page.status_code, answer.status_code, answer["Retry-After"]) == (507, 507, "60")
    assert "The server's disk is full" in page.content.decode()
    assert answer.json() == {"detail": disk.FULL}


def test_every_page_says_that_the_disk_is_full(owner, monkeypatch):
    assert "data-disk-full" not in as_(owner).get("/").content.decode()
    monkeypatch.setattr(disk, "RESERVE_BYTES", 1 << 60)
    assert "data-disk-full" in as_(owner).get("/").content.decode()


def test_a_fault_of_ours_is_called_one(owner, monkeypatch):
    client = as_(owner)
    client.raise_request_exception = False
    monkeypatch.setattr("apps.accounts.navigation.reverse", Mock(side_effect=ValueError))
    page = client.get("/")
    assert page.status_code == 500
    assert "The server couldn't complete this request" in page.content.decode()


@pytest.fixture
def valkey_is_away(settings):
    """Points the cache and the channel layer to a port that nobody listens on."""
    nowhere = {**settings.CACHES["default"], "LOCATION": "unix:///tmp/retrace-nobody.sock"}
    settings.CACHES = {"default": nowhere}


def test_pages_and_api_answer_without_valkey(owner, valkey_is_away):
    client = as_(owner)
    for url in ("/", "/runs/", "/experiments/", "/settings/members/", "/api/v1/runs"):
        assert client.get(url).status_code == 200, url
