"""Where the calls of a policy's sessions are sent: to its server, or to this installation's own server for small models."""

from __future__ import annotations

from typing import NamedTuple

from django.conf import settings
from django.db.models import Q

from apps.accounts.models import Membership
from apps.policies.aliases import local_model_id, served
from apps.policies.models import Endpoint, Policy, PolicyQuerySet, Publication


class Target(NamedTuple):
    """The server that answers, and the policy's name there."""

    endpoint: Endpoint | None
    """None for this installation's own server, where models are named by the training runs that made them."""
    name: str


def target_of(policy: Policy) -> Target | None:
    """Where `policy` is served now; None if nowhere."""
    if (served_by := served(policy)) is not None:
        return Target(served_by.endpoint, served_by.name) if served_by.name else None
    run = local_model_id(policy)
    return Target(None, run) if run else None


def answering(member: Membership) -> PolicyQuerySet:
    """The policies of a workspace that are served."""
    published = Policy.objects.filter(
        publications__state=Publication.State.LIVE, publications__endpoint__isnull=False
    ).values("pk")
    somewhere = Q(endpoint__isnull=False) & ~Q(location="") | Q(pk__in=published)
    if settings.LOCAL_MODELS_URL:
        somewhere |= Q(
            kind=Policy.Kind.MODEL,
            made_by__isnull=False,
            settings__parameters__lte=settings.LOCAL_MODELS_PARAMETERS,
        )
    return Policy.objects.visible_to(member).acting().filter(somewhere)
