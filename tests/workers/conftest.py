"""Two policies that were really trained, and a server to which they can be published."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from apps.jobs import lifecycle
from apps.policies.models import Endpoint, Policy, Publication
from apps.policies.publication import PUBLICATIONS, publish_policy
from tests import factories
from tests.workers.trained_policies import train_two
from tests.workers.vllm_like import VllmLike
from workers.bridge.publication_job import publish

ONE, TWO = str(UUID(int=1)), str(UUID(int=2))
"""The ids of two runs."""


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_two(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def runs(trained: Path, settings) -> Path:
    """RUNS_DIR, with both runs in it."""
    for name, run in (("one", ONE), ("two", TWO)):
        shutil.copytree(trained / name, settings.RUNS_DIR / run)
    settings.SERVED_RUNS_DIR = str(settings.RUNS_DIR)
    settings.PUBLISHED_DIR = settings.RUNS_DIR.parent / "published"
    return settings.RUNS_DIR


@pytest.fixture
def server(trained: Path) -> Iterator[VllmLike]:
    with VllmLike(trained / "base") as running:
        yield running


class Team:
    """A member of a workspace who publishes the runs' policies, and the worker that does it."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.member = factories.member()

    def policy(self, run: str) -> Policy:
        report = json.loads((self.runs / run / "report.json").read_text())
        return factories.trained_policy(of=self.member.workspace, run_id=run, report=report)

    def endpoint(self, server: VllmLike, *replicas: VllmLike) -> Endpoint:
        addresses = {"base_url": server.url, "replicas": [replica.url for replica in replicas]}
        name = " ".join([server.url, *(replica.url for replica in replicas)])
        return Endpoint.objects.get_or_create(workspace=self.member.workspace, name=name, **addresses)[0]

    def asks(self, policy: Policy, way: str, *servers: VllmLike, name: str = "office") -> Publication:
        place = self.endpoint(*servers) if servers else None
        return publish_policy(policy=policy, way=way, name=name, endpoint=place, by=self.member.user)

    def publishes(self, policy: Policy, way: str, *servers: VllmLike, name: str = "office") -> Publication:
        return done(self.asks(policy, way, *servers, name=name))


@pytest.fixture
def team(runs: Path) -> Team:
    return Team(runs)


def done(publication: Publication) -> Publication:
    """The publication after a worker has processed it."""
    publish(claimed(publication))
    publication.refresh_from_db()
    return publication


def claimed(publication: Publication) -> Publication:
    taken = lifecycle.claim(PUBLICATIONS, publication.pk, worker="here:1")
    assert taken is not None
    return taken


def loaded(runs: Path, *publications: Publication) -> dict[str, str]:
    """The adapters of a server that serves exactly these."""
    return {
        publication.served_name: str(runs / "served" / "adapters" / publication.served_name)
        for publication in publications
    }
