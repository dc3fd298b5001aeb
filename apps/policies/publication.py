"""Requests to publish a policy, or to roll back to the previous one. A worker carries them out and verifies them."""

from __future__ import annotations

import re

from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import User
from apps.jobs import lifecycle
from apps.jobs.models import Event, Kind, Phase, register
from apps.policies.locations import weights_of
from apps.policies.models import Endpoint, Policy, Publication
from apps.webhooks.events import EventType

TASK = "publishing.publish"


def _end(publication: Publication, event: Event) -> None:
    if event.kind == "failed":
        Publication.objects.filter(pk=publication.pk).update(ended_at=now())


PUBLICATIONS = register(
    Kind(
        name="publications",
        noun="publication",
        label="Publication",
        model=Publication,
        task=lambda publication: TASK,
        title=str,
        url=lambda publication: reverse("policies:policy", args=[publication.policy_id]),
        on_event=_end,
        webhook_events={Phase.DONE: EventType.POLICY_PUBLISHED, Phase.FAILED: EventType.POLICY_NOT_PUBLISHED},
        webhook_data=lambda publication: {"policy": str(publication.policy_id)},
        related=("policy__workspace", "endpoint", "workspace", "by"),
        listed_with=("policy",),
        lane="publications",
    )
)


NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,79}")
Way = Publication.Way


class PublishingRefused(Exception):
    """The policy can't be published. `field` is what to change."""

    field = ""


class NotPublishable(PublishingRefused):
    """Only language models whose run left its weights here can be published."""


class NoCanary(PublishingRefused):
    """The run recorded no canary to verify a server with."""


class NoAdapter(PublishingRefused):
    """The run trained all weights, so there's no adapter to load."""

    field = "way"


class BadName(PublishingRefused):
    """The name doesn't suit requests and folder names."""

    field = "name"


class NoServer(PublishingRefused):
    """A server is required, unless the policy is published as a folder."""

    field = "endpoint"


class UnderWay(PublishingRefused):
    """Another publication under this name is in progress."""

    field = "name"


class NothingBefore(PublishingRefused):
    """Nothing was live under this name before."""


@transaction.atomic
def publish_policy(
    *, policy: Policy, way: str, name: str, endpoint: Endpoint | None = None, by: User | None, is_rollback: bool = False
) -> Publication:
    """Have a worker publish `policy` under `name`. The current publication stays live until the new one is verified.

    Raises PublishingRefused.
    """
    _refuse_invalid(policy, way, name, endpoint)
    try:
        with transaction.atomic():
            publication = Publication(
                workspace=policy.workspace,
                policy=policy,
                way=way,
                name=name,
                endpoint=endpoint,
                by=by,
                is_rollback=is_rollback,
            )
            publication.served_name = served_name(publication)
            publication.save(force_insert=True)
    except IntegrityError:
        raise UnderWay(
            f"Another publication as {name!r} is in progress there. Wait until it is live or refused."
        ) from None
    audit.record(
        workspace=policy.workspace,
        actor=by,
        action="rolled back to" if is_rollback else "asked to publish",
        subject=f"{policy.name} as {name}",
        target=policy,
        way=way,
        servers=endpoint.addresses if endpoint else [],
    )
    lifecycle.queue(publication)
    return publication


def served_name(publication: Publication) -> str:
    """The model's name on the server, such as office-1f0c5b7a93d2; the suffix comes from the id and is random. Empty if it isn't served."""
    return f"{publication.name}-{publication.pk.hex[-12:]}" if publication.endpoint_id else ""


def _refuse_invalid(policy: Policy, way: str, name: str, endpoint: Endpoint | None) -> None:
    weights = weights_of(policy)
    if weights is None or not weights.has_model:
        raise NotPublishable(
            f"{policy} has no weights here. Only language models that a training run here made can be published."
        )
    if way != Way.FOLDER and "canary" not in policy.report:
        raise NoCanary(f"The run of {policy} left no canary, so a server of it can't be verified. Train it again.")
    if way == Way.ADAPTER and not weights.has_adapter:
        raise NoAdapter(f"{policy} was trained without LoRA, so it has no adapter: restart a server with it instead.")
    if not NAME.fullmatch(name):
        raise BadName(f"Got {name!r}; expected letters, digits, dots, dashes and underscores, 80 at most.")
    if (way == Way.FOLDER) != (endpoint is None):
        raise NoServer("Choose the server." if endpoint is None else "A folder needs no server.")


@transaction.atomic
def roll_back_publication(*, publication: Publication, by: User) -> Publication:
    """Republish the policy that was live under the same name before. Raises PublishingRefused.

    Repeated rollbacks go further back, like undo; each is verified with the canary again.
    """
    publication = Publication.objects.select_for_update(of=["self"]).select_related("policy").get(pk=publication.pk)
    if publication.state != Publication.State.LIVE:
        raise NothingBefore(f"{publication} is not live any more.")
    lived = publication_history(publication)
    if len(lived) < 2:
        raise NothingBefore(f"Nothing was live as {publication.name} before {publication.policy}.")
    before = lived[-2]
    return publish_policy(
        policy=before.policy, way=before.way, name=before.name, endpoint=before.endpoint, by=by, is_rollback=True
    )


def publication_history(publication: Publication) -> list[Publication]:
    """The publications under its name that weren't rolled back, oldest first. The last one is live or was the last to be."""
    lived: list[Publication] = []
    everything = Publication.objects.beside(publication).exclude(live_at=None)
    for entry in everything.select_related("policy__workspace", "endpoint").order_by("live_at", "id"):
        if entry.is_rollback:
            del lived[-2:]
        lived.append(entry)
    return lived
