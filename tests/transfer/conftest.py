from typing import Any
from uuid import uuid4

import pytest

from apps.datasets.models import Version
from apps.datasets.recipe import Recipe
from tests import factories
from tests.transfer.archives import Members, exported, unpacked
from tests.transfer.full_workspace import fill

_GOOD: Members = {}


@pytest.fixture
def members(request: pytest.FixtureRequest) -> Members:
    """The members of a valid archive, exported once per process."""
    if not _GOOD:
        owner, things = request.getfixturevalue("owner"), request.getfixturevalue("things")
        fill(owner, things)
        _GOOD.update(unpacked(exported(owner)))
    return dict(_GOOD)


@pytest.fixture(autouse=True)
def versions_with_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The factory's versions have no files, so here they're failed ones. Frozen versions are made by freezing."""
    make = factories.dataset_version

    def failed(**fields: Any) -> Version:
        recipe = Recipe(queues=(str(uuid4()),)).to_json()
        state = {"state": "failed", "frozen_at": None, "content_hash": "", "recipe": recipe}
        return make(**{**state, **fields})

    monkeypatch.setattr(factories, "dataset_version", failed)
