"""Clients of the real server, directly and over a network that can fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from retrace import Client, Retries

from apps.accounts.models import Role, Workspace
from tests import factories
from tests.client.network import Network
from tests.live import LiveStack

PROMPT = Retries(first_seconds=0.01, longest_seconds=0.02)


@pytest.fixture
def workspace(live_stack: LiveStack) -> Workspace:
    return factories.workspace()


@pytest.fixture
def token(workspace: Workspace) -> str:
    return factories.token(factories.member(Role.RESEARCHER, of=workspace))


@pytest.fixture
def client(live_stack: LiveStack, token: str) -> Iterator[Client]:
    """A researcher's client."""
    with Client(live_stack.url, token) as client:
        yield client


@pytest.fixture
def network(live_stack: LiveStack) -> Iterator[Network]:
    with Network(live_stack.url) as network:
        yield network


@pytest.fixture
def far_client(network: Network, token: str) -> Iterator[Client]:
    """The same researcher's client over the unreliable network, with a minimal delay between attempts."""
    with Client(network.url, token, retries=PROMPT) as client:
        yield client
