"""A traffic split of two arms, and who compares them."""

import pytest
from django.test import Client

from apps.accounts.models import Membership, Role
from apps.gateway.splits.models import TrafficSplit
from tests import factories


@pytest.fixture
def researcher(client: Client) -> Membership:
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


@pytest.fixture
def split(researcher: Membership) -> TrafficSplit:
    """Two arms; the first is the champion of the environment "shop"."""
    home = researcher.workspace
    arms = [factories.served_policy(of=home, name=name) for name in ("old", "new")]
    return factories.traffic_split(of=home, arms=arms, environment="shop", by=researcher.user)
