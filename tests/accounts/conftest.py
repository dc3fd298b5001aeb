"""Fixtures shared by tests of people and workspaces."""

import pytest

from apps.accounts.models import Membership, Role
from tests import factories


@pytest.fixture
def owner() -> Membership:
    return factories.member(Role.OWNER)


@pytest.fixture(autouse=True)
def time_of_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Freezes the time at 2,800 s into an hour, so that no rate-limit window ends during a test."""
    monkeypatch.setattr("apps.common.limits.time", lambda: 1_000_000.0)
