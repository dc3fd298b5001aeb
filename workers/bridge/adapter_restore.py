"""Reloads adapters that a server lost, such as by restarting, with the same verification as the first time."""

from __future__ import annotations

import logging
from contextlib import suppress

from django.core.cache import cache
from django.db.models import Exists, OuterRef, Q

from apps.common.workspace_turns import in_workspace_turns
from apps.gateway.models import Session
from apps.policies import publication_progress
from apps.policies.locations import weights_of
from apps.policies.models import Publication
from trainer.failures import DataFailure
from trainer.serving.client import ServerProblem, VllmServer
from workers.bridge.adapters import Adapter, adapter_of, load_verified
from workers.bridge.refusals import CannotPublish, Refused
from workers.bridge.servers import endpoint_of, servers_of

logger = logging.getLogger(__name__)
TURN_SECONDS = 60.0
"""Time limit per workspace in a pass, since each of its servers may take half a minute to answer."""
UNVERIFIED_SECONDS = 24 * 3600
"""How long it's remembered that an adapter was loaded on a server but not verified there, since the worker was killed or the server stopped answering."""


def restore_adapters() -> list[Publication]:
    """Load live adapters on servers that lack them, and replaced ones that open sessions keep; returns the publications restored.

    Unreachable servers are tried again the next time.
    """
    sessions = Session.objects.open().filter(endpoint=OuterRef("endpoint"), served_name=OuterRef("served_name"))
    is_needed = Q(state=Publication.State.LIVE) | Q(Exists(sessions), state=Publication.State.REPLACED)
    needed = Publication.objects.filter(is_needed, way=Publication.Way.ADAPTER)
    needed = needed.select_related("policy__workspace", "endpoint")
    by_turns = in_workspace_turns(needed, name="restore", seconds=TURN_SECONDS)
    return [publication for publication in by_turns if restore(publication)]


def restore(publication: Publication) -> bool:
    """Whether it was missing on a server and has been restored."""
    weights = weights_of(publication.policy)
    try:
        if weights is None:
            raise CannotPublish(f"{publication.policy} has no weights here.")
        adapter = adapter_of(publication, weights)
        restored = [_restore(publication, adapter, server) for server in servers_of(endpoint_of(publication))]
    except (CannotPublish, ServerProblem, DataFailure, OSError, ValueError) as problem:
        logger.warning("%s could not be loaded again: %s", publication, problem)
        return False
    return any(restored)


def _restore(publication: Publication, adapter: Adapter, server: VllmServer) -> bool:
    unverified = f"unverified:{server.url}:{adapter.name}"
    with server:
        try:
            loaded = {model.name: model.root for model in server.models()}
            if loaded.get(adapter.name) == adapter.path and not cache.get(unverified):
                return False
            cache.set(unverified, True, UNVERIFIED_SECONDS)
            _load(adapter, server)
        except ServerProblem as problem:
            logger.warning("%s could not be loaded again: %s", publication, problem)
            return False
        except Refused as refused:
            _withdraw_or_log(publication, refused)
            return False
    cache.delete(unverified)
    return True


def _load(adapter: Adapter, server: VllmServer) -> None:
    """Load it and verify it, or unload it again. Raises Refused, ServerProblem."""
    try:
        load_verified(adapter, server, other_models=[])
    except (Refused, ServerProblem):
        with suppress(ServerProblem):
            server.unload_adapter(adapter.name)
        raise


def _withdraw_or_log(publication: Publication, refused: Refused) -> None:
    """Withdraw a live publication with a single server. With replicas, it stays live on the others, and no requests are routed to this one."""
    if endpoint_of(publication).replicas or publication.state != Publication.State.LIVE:
        logger.error("%s: %s no longer answers with it: %s", publication, refused.server, refused)
    else:
        publication_progress.withdraw(publication, reason=str(refused), canary=refused.verdict.to_json())
