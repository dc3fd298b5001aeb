"""A split over two policies, each with its own server; one is the champion of the environment "shop"."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from apps.accounts.models import Membership
from apps.gateway.splits.changes import ArmPlan, create_split
from apps.gateway.splits.models import TrafficSplit
from apps.policies import registration
from apps.policies.models import Policy
from tests.gateway.upstream import Upstream, says


class Arms(NamedTuple):
    """Two policies and their servers; the first is the champion."""

    champion: Policy
    challenger: Policy
    servers: tuple[Upstream, Upstream]


@pytest.fixture
def arms(researcher: Membership) -> Iterator[Arms]:
    with Upstream(says("From the champion.")) as first, Upstream(says("From the challenger.")) as second:
        champion, challenger = (
            registration.register_served(
                workspace=researcher.workspace,
                name=name,
                base_url=server.url,
                model=f"{name}-model",
                by=researcher.user,
            )
            for name, server in (("old", first), ("new", second))
        )
        yield Arms(champion, challenger, (first, second))


@pytest.fixture
def split_of(researcher: Membership, arms: Arms) -> Callable[..., TrafficSplit]:
    """Creates the split "support"; `weights` are those of the champion and the challenger, or of the champion alone."""

    def made(*weights: int, **fields: Any) -> TrafficSplit:
        policies = (arms.champion, arms.challenger)
        plans = [ArmPlan(policy, weight) for policy, weight in zip(policies, weights, strict=False) if weight]
        return create_split(
            **{
                "workspace": researcher.workspace,
                "name": "support",
                "environment": "shop",
                "champion": arms.champion,
                "arms": plans or [ArmPlan(arms.champion, 1), ArmPlan(arms.challenger, 1)],
                "by": researcher.user,
                **fields,
            }
        )

    return made
