"""From the name that people know to the one that a server knows.

A publication's name is an alias that servers never hear of. Whoever asks a server resolves it here, at that moment: what is live then is what answers.
"""

from __future__ import annotations

from typing import NamedTuple

from django.conf import settings

from apps.policies.locations import weights_of
from apps.policies.models import Endpoint, Policy, Publication


class Served(NamedTuple):
    """A policy behind an endpoint, and what its servers call it."""

    endpoint: Endpoint
    name: str
    is_published: bool
    """Retrace put it there, under a name that no other policy ever gets; else somebody typed the name of a model."""


def served(policy: Policy) -> Served | None:
    """Where `policy` is served: as it was published last, else by its own endpoint; None where it isn't."""
    live = policy.publications.live().exclude(endpoint=None).select_related("endpoint").order_by("-live_at").first()
    if live is not None and live.endpoint is not None:
        return Served(live.endpoint, live.served_name, is_published=True)
    return resolved(policy.endpoint, policy.location) if policy.endpoint is not None else None


def run_to_ask(policy: Policy) -> str:
    """By which id this installation's own server of small models knows `policy`, where it may be asked for it; else empty.

    It loads what lies in the folder of the training run, so there's nothing to prove as of a policy that is published.
    """
    parameters = policy.settings.get("parameters")
    if not settings.LOCAL_MODELS_URL or not parameters or parameters > settings.LOCAL_MODELS_PARAMETERS:
        return ""
    weights = weights_of(policy)
    return weights.run.name if weights and weights.has_model else ""


def resolved(endpoint: Endpoint, name: str) -> Served:
    """What a name at an endpoint stands for: what its workspace has published under it, else a model that the servers call so."""
    live = Publication.objects.live().filter(workspace=endpoint.workspace_id, endpoint=endpoint, name=name).first()
    if live is None:
        return Served(endpoint, name, is_published=False)
    return Served(endpoint, live.served_name, is_published=True)
