"""Fixtures shared by most tests of datasets; some override the queue or the member."""

import pytest

from apps.accounts.models import Membership
from apps.annotation.models import Queue
from apps.datasets import freezing
from apps.datasets.models import Dataset
from tests import factories


@pytest.fixture
def member() -> Membership:
    return factories.member()


@pytest.fixture
def queue(member: Membership) -> Queue:
    """An empty queue of pairs."""
    return factories.queue(of=member.workspace)


@pytest.fixture
def dataset(member: Membership) -> Dataset:
    return freezing.create_dataset(name="shop", description="", license="", by=member)
