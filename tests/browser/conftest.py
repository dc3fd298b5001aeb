"""Who sits at the desk in most browser tests."""

import pytest

from apps.accounts.models import Membership, Role
from tests import factories
from tests.live import LiveStack


@pytest.fixture
def annotator(live_stack: LiveStack) -> Membership:
    """An annotator of a new workspace."""
    return factories.member(Role.ANNOTATOR)
