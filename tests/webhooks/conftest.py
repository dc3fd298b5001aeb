"""A researcher, and servers that receive their workspace's events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps.accounts.models import Membership, Role
from apps.webhooks.destinations import NewDestination, create_destination
from apps.webhooks.events import EventType
from tests import factories
from tests.webhooks.receiver import Receiver


@pytest.fixture
def researcher(db: None) -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


@pytest.fixture
def register(researcher: Membership, receiver: Receiver) -> Callable[..., NewDestination]:
    """Creates a destination of all events, at `receiver`."""

    def made(**overrides: Any) -> NewDestination:
        fields = {"kind": "webhook", "name": "bot", "address": receiver.url, "events": EventType.values}
        return create_destination(**{"workspace": researcher.workspace, "by": researcher.user, **fields, **overrides})

    return made
