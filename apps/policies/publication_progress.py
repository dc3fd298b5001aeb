"""What a worker writes about a publication that it holds. All of it may be told twice."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils.timezone import now

from apps.accounts import audit
from apps.jobs import lifecycle
from apps.jobs.models import Failure
from apps.policies.models import Endpoint, Publication

State = Publication.State


@transaction.atomic
def go_live(publication: Publication, *, canary: dict[str, Any], location: str) -> None:
    """It is proven and answers under its name: what was live there is replaced. Raises Superseded."""
    beside = Publication.objects.beside(publication).live()
    if publication.way == Publication.Way.RESTART:  # the server forgot its adapters with its model, whosever they were
        assert publication.endpoint is not None, "a constraint holds it"
        there = Endpoint.objects.sharing(publication.endpoint.addresses)
        beside = Publication.objects.filter(endpoint__in=there).live()
    beside.exclude(pk=publication.pk).update(state=State.REPLACED, ended_at=now())
    lifecycle.finish(publication, canary=canary, location=location, live_at=now())
    audit.record(
        workspace=publication.workspace,
        actor=publication.by,
        action="published",
        subject=str(publication),
        about=publication.policy,
        canary=canary,
    )


def refuse(publication: Publication, *, reason: str, canary: dict[str, Any]) -> None:
    """What answered is not the policy. What was live before still is. Raises Superseded."""
    lifecycle.fail(publication, Failure("refused", reason), state=State.REFUSED, canary=canary)


def withdraw(publication: Publication, *, reason: str, canary: dict[str, Any]) -> None:
    """It was live and the canary refuses it now: nothing answers under its name any more. Told twice, the second does nothing."""
    Publication.objects.live().filter(pk=publication.pk).update(
        state=State.REFUSED, failure=Failure("refused", reason).as_json(), canary=canary, ended_at=now()
    )
