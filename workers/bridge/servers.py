"""The servers behind an endpoint, and where they find what Retrace has put down for them."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from apps.policies.models import Endpoint, Publication
from trainer.serving.client import VllmServer


def servers_of(endpoint: Endpoint) -> list[VllmServer]:
    """Each of them. Raises ServerProblem where one may not be asked."""
    return [VllmServer(address, key_variable=endpoint.key_variable) for address in endpoint.addresses]


def endpoint_of(publication: Publication) -> Endpoint:
    assert publication.endpoint is not None, "a constraint holds it"
    return publication.endpoint


def served_folder() -> Path:
    """What servers are given: `adapters/<served name>` for each adapter, `<host>-<port>.json` for the keeper of each server."""
    return Path(settings.RUNS_DIR) / "served"


def as_seen_by_servers(place: Path) -> str:
    """A folder under RUNS_DIR, at the path at which the servers have it."""
    return str(Path(settings.SERVED_RUNS_DIR) / place.relative_to(settings.RUNS_DIR))
