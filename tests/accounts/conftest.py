"""What tests of people and workspaces share."""

import pytest

from apps.accounts.models import Membership, Role
from tests import factories


@pytest.fixture
def owner() -> Membership:
    return factories.member(Role.OWNER)


@pytest.fixture(autouse=True)
def time_of_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,800 s into an hour: no window ends during a test."""
    monkeypatch.setattr("apps.common.limits.time", lambda: 1_000_000.0)
