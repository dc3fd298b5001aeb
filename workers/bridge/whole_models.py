"""Whole models on servers that restart to load them. A server starts with an empty prefix cache, so the canary alone is sufficient."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from apps.policies import publication_progress
from apps.policies.locations import Weights, weights_of
from apps.policies.models import Endpoint, Publication
from contract.atomic_files import write_atomically
from trainer.canary import judge
from trainer.serving.client import ServerProblem, VllmServer
from workers.bridge.refusals import CannotPublish, Refused, canary_of
from workers.bridge.servers import endpoint_of, served_folder, servers_of

logger = logging.getLogger(__name__)
POLL_SECONDS = 1.0


def publish_whole_model(publication: Publication, weights: Weights, *, renew: Callable[[], None]) -> None:
    """Point each server's keeper at the model, one after the other, and verify what it serves.

    If one fails or is refused, all are pointed back. Raises Refused, CannotPublish, ServerProblem, OSError.
    """
    canary = canary_of(publication, weights)
    verdicts = []
    try:
        for server in servers_of(endpoint_of(publication)):
            with server:
                _write_pointer(server.url, _pointer_content(publication, weights, server.url))
                _wait_for(publication, server, renew)
                verdicts.append(judge(canary, server.logprobs(publication.served_name, canary.probes)))
                if not verdicts[-1].passed:
                    raise Refused(verdicts[-1], server=server.url)
    except (Refused, CannotPublish, ServerProblem, OSError):
        for address in endpoint_of(publication).addresses:
            point_at_live_model(address)
        raise
    worst = max(verdicts, key=lambda verdict: verdict.to_policy)
    publication_progress.go_live(publication, canary=worst.to_json(), location=str(weights.model))


def reset_abandoned_pointers() -> list[str]:
    """Point keepers left at an abandoned publication back at the live model; returns their servers' addresses.

    The workers publishing it were killed before they could clean up.
    """
    publications = Publication.objects.filter(way=Publication.Way.RESTART)
    reset: list[str] = []
    for endpoint in Endpoint.objects.filter(publications__in=publications).distinct():
        endpoints = Endpoint.objects.sharing(endpoint.addresses)
        try:
            if not publications.active().filter(endpoint__in=endpoints).exists():
                reset += [address for address in endpoint.addresses if point_at_live_model(address)]
        except (OSError, ValueError):  # one server's address or file mustn't keep the others waiting
            logger.exception("The pointers of %s can't be reset", endpoint)
    return reset


def point_at_live_model(address: str) -> bool:
    """Point the keeper at the model that is live on its server, or its default; returns whether that changed it.

    The file itself isn't trusted: a killed worker may have left an unverified model there.
    """
    live = (
        Publication.objects.live()
        .filter(way=Publication.Way.RESTART, endpoint__in=Endpoint.objects.sharing([address]))
        .select_related("policy", "endpoint")
        .order_by("-live_at")
        .first()
    )
    weights = weights_of(live.policy) if live else None
    return _write_pointer(address, _pointer_content(live, weights, address) if live and weights else None)


def pointer_of(address: str) -> Path:
    """The file that the keeper of a server watches: `served/<host>-<port>.json` under RUNS_DIR."""
    url = urlsplit(address)
    port = url.port or (443 if url.scheme == "https" else 80)
    return served_folder() / f"{url.hostname}-{port}.json"


def _pointer_content(publication: Publication, weights: Weights, address: str) -> str:
    folder = pointer_of(address).parent
    return json.dumps({"model": os.path.relpath(weights.model, folder), "served_name": publication.served_name})


def _write_pointer(address: str, content: str | None) -> bool:
    """Write atomically, since the keeper may read at any time. False if unchanged."""
    pointer = pointer_of(address)
    if (pointer.read_text(encoding="utf-8") if pointer.is_file() else None) == content:
        return False
    if content is None:
        pointer.unlink(missing_ok=True)
        return True
    pointer.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(pointer, content)
    return True


def _wait_for(publication: Publication, server: VllmServer, renew: Callable[[], None]) -> None:
    """Wait until the server has started with the model, which has a unique name. Raises CannotPublish."""
    deadline = time.monotonic() + settings.SERVER_START_SECONDS
    while not _serves(server, publication.served_name):
        renew()
        if time.monotonic() > deadline:
            raise CannotPublish(
                f"{server.url} did not come up with the model within {settings.SERVER_START_SECONDS} s. Is it run by "
                f"trainer/serving/keeper.py with --pointer {pointer_of(server.url)}? Its log says more."
            )
        time.sleep(POLL_SECONDS)


def _serves(server: VllmServer, name: str) -> bool:
    try:
        return any(model.name == name for model in server.models())
    except ServerProblem:
        return False  # shutting down or starting
