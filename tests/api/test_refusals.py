"""Every refusal of the API is JSON, and says what was wrong."""

import pytest
from django.test import Client

from apps.datasets import api
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    token = factories.token(factories.member())
    return Client(headers={"authorization": f"Bearer {token}"}, raise_request_exception=False)


def test_json_without_an_end_to_its_depth_is_refused(client: Client) -> None:
    answer = client.post("/api/v1/datasets", b"[" * 100_000, content_type="application/json")
    assert (answer.status_code, answer.json()) == (400, {"detail": "JSON parse error - it is nested too deeply."})


def test_a_fault_of_the_server_is_told_in_json_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(api.DatasetList, "get_queryset")
    answer = client.get("/api/v1/datasets")
    assert (answer.status_code, set(answer.json())) == (500, {"detail"})
    assert "<html" in client.get("/no/such/page").content.decode()
