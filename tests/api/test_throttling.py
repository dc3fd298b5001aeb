"""Excessive requests get a 429, and one token's requests don't throttle another's."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.authentication import MemberRateThrottle
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def two_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemberRateThrottle, "THROTTLE_RATES", {"member": "2/min"})


def test_programs_have_a_rate_of_their_own(client: Client, settings: Any) -> None:
    settings.API_AGENT_RATE = 5
    hasty = {"authorization": f"Bearer {factories.token(factories.member())}"}

    answers = [
        client.post("/api/v1/episodes/lease", {"runner": "r"}, content_type="application/json", headers=hasty)
        for _ in range(6)
    ]

    assert [answer.status_code for answer in answers] == [204] * 5 + [429]
    assert 1 <= int(answers[5]["Retry-After"]) <= 60
    assert client.get("/api/v1/datasets", headers=hasty).status_code == 200


def test_the_third_request_in_a_minute_has_to_wait(client: Client) -> None:
    member = factories.member()
    hasty = {"authorization": f"Bearer {factories.token(member)}"}
    patient = {"authorization": f"Bearer {factories.token(member)}"}

    answers = [client.get("/api/v1/datasets", headers=hasty) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2]["Retry-After"]) <= 60
    assert set(answers[2].json()) == {"detail"}
    assert client.get("/api/v1/datasets", headers=patient).status_code == 200
