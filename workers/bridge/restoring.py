"""Adapters that a server has forgotten, as it does when it restarts by itself, are loaded again: no less proven than the first time."""

from __future__ import annotations

import logging
from itertools import groupby

from apps.policies import delivering
from apps.policies.models import Publication
from apps.policies.weights import weights_of
from trainer.failures import DataFailure
from trainer.serving.client import ServerProblem
from workers.bridge.publishing import CannotPublish, Refused, adapter_path, server_of, swap_in

logger = logging.getLogger(__name__)


def restore_adapters() -> list[Publication]:
    """Load what should be live and is not known to its server; returns those that answer again. A server that is away is asked the next time."""
    live = Publication.objects.live().filter(way=Publication.Way.ADAPTER)
    live = live.select_related("policy__workspace", "endpoint").order_by("endpoint", "pk")
    restored: list[Publication] = []
    for _, publications in groupby(live, key=lambda publication: publication.endpoint_id):
        restored += [each for each in forgotten(list(publications)) if not is_being_replaced(each) and restore(each)]
    return restored


def forgotten(publications: list[Publication]) -> list[Publication]:
    """Those of one server under whose names it serves nothing any more, or another adapter; none while it is away."""
    try:
        with server_of(publications[0]) as server:
            known = {model.name: model.root for model in server.models()}
    except ServerProblem:
        return []
    return [each for each in publications if known.get(each.name) != _place_of(each)]


def _place_of(publication: Publication) -> str:
    weights = weights_of(publication.policy)
    return adapter_path(weights) if weights else ""


def is_being_replaced(publication: Publication) -> bool:
    """Whoever publishes under its name now will load what is to answer."""
    return Publication.objects.beside(publication).active().exists()


def restore(publication: Publication) -> bool:
    weights = weights_of(publication.policy)
    try:
        if weights is None:
            raise CannotPublish(f"{publication.policy} has no weights here.")
        swap_in(publication, weights)
    except Refused as refused:
        delivering.withdraw(publication, reason=str(refused), canary=refused.verdict.to_json())
        return False
    except (CannotPublish, ServerProblem, DataFailure, OSError, ValueError) as problem:
        logger.warning("%s could not be loaded again: %s", publication, problem)
        return False
    return True
