"""The servers behind an endpoint, and the files that Retrace provides for them."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from apps.policies.models import Endpoint, Publication
from trainer.serving.client import VllmServer


def servers_of(endpoint: Endpoint) -> list[VllmServer]:
    """A client for each server. Raises ServerProblem if connecting to one isn't allowed."""
    return [VllmServer(address, key_variable=endpoint.key_variable) for address in endpoint.addresses]


def endpoint_of(publication: Publication) -> Endpoint:
    assert publication.endpoint is not None, "ensured by a constraint"
    return publication.endpoint


def served_folder() -> Path:
    """The folder shared with servers: `adapters/<served name>` for each adapter, `<host>-<port>.json` for the keeper of each server."""
    return Path(settings.RUNS_DIR) / "served"


def path_on_servers(folder: Path) -> str:
    """A folder under RUNS_DIR as its path on the servers."""
    return str(Path(settings.SERVED_RUNS_DIR) / folder.relative_to(settings.RUNS_DIR))
