"""Too many requests are refused politely, and one token's haste does not slow another."""

import pytest
from django.test import Client

from apps.accounts.authentication import MemberRateThrottle
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def two_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemberRateThrottle, "THROTTLE_RATES", {"member": "2/min"})


def test_the_third_request_in_a_minute_has_to_wait(client: Client) -> None:
    member = factories.member()
    hasty = {"authorization": f"Bearer {factories.token(member)}"}
    patient = {"authorization": f"Bearer {factories.token(member)}"}

    answers = [client.get("/api/v1/datasets", headers=hasty) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2]["Retry-After"]) <= 60
    assert set(answers[2].json()) == {"detail"}
    assert client.get("/api/v1/datasets", headers=patient).status_code == 200
