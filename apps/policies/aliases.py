"""Resolves published names to the names that servers know.

A publication's name is an alias that the server itself doesn't know. Every request resolves it here when it's made, so it goes to whatever is live then.
"""

from __future__ import annotations

from typing import NamedTuple

from django.conf import settings

from apps.policies.locations import weights_of
from apps.policies.models import Endpoint, Policy, Publication


class Served(NamedTuple):
    """A policy at an endpoint, with its model name there."""

    endpoint: Endpoint
    name: str
    is_published: bool
    """Published by Retrace, under a name unique to the policy; otherwise a model name that somebody entered."""


def served(policy: Policy) -> Served | None:
    """Where `policy` is served: by its latest live publication, else by its own endpoint; None if neither exists."""
    live = policy.publications.live().exclude(endpoint=None).select_related("endpoint").order_by("-live_at").first()
    if live is not None and live.endpoint is not None:
        return Served(live.endpoint, live.served_name, is_published=True)
    return resolved(policy.endpoint, policy.location) if policy.endpoint is not None else None


def local_model_id(policy: Policy) -> str:
    """The model id of `policy` on this installation's own server of small models; empty if that server may not load it.

    The server loads the training run's own folder, so no canary is needed, unlike for a publication.
    """
    parameters = policy.settings.get("parameters")
    if not settings.LOCAL_MODELS_URL or not parameters or parameters > settings.LOCAL_MODELS_PARAMETERS:
        return ""
    weights = weights_of(policy)
    return weights.run.name if weights and weights.has_model else ""


def resolved(endpoint: Endpoint, name: str) -> Served:
    """The model behind a name at an endpoint: the workspace's live publication of that name, else the server's model of that name."""
    live = Publication.objects.live().filter(workspace=endpoint.workspace_id, endpoint=endpoint, name=name).first()
    if live is None:
        return Served(endpoint, name, is_published=False)
    return Served(endpoint, live.served_name, is_published=True)
