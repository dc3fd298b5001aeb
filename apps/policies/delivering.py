"""What a worker writes about a publication that it holds. All of it may be told twice."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils.timezone import now

from apps.accounts import auditing
from apps.common.leases import Superseded, lease
from apps.policies.models import Publication
from apps.policies.publishing import queue

MAX_ATTEMPTS = 3
State = Publication.State


def claim(publication_id: UUID | str, *, worker: str) -> Publication | None:
    """Take a waiting publication; None when it is taken, over, or gone."""
    taken = Publication.objects.filter(pk=publication_id, state=State.WAITING).update(
        state=State.WORKING, attempt=F("attempt") + 1, worker=worker, leased_until=now() + lease()
    )
    if not taken:
        return None
    return Publication.objects.select_related("policy__workspace", "endpoint", "workspace", "by").get(pk=publication_id)


def renew(publication: Publication) -> None:
    """Keep it for another lease. Raises Superseded."""
    _write(publication, leased_until=now() + lease())


@transaction.atomic
def go_live(publication: Publication, *, canary: dict[str, Any], location: str) -> None:
    """It is proven and answers under its name: what was live there is replaced. Raises Superseded."""
    beside = Publication.objects.beside(publication).live()
    if publication.way == Publication.Way.RESTART:  # the server forgot its adapters with its model, whosever they were
        assert publication.endpoint is not None, "a constraint holds it"
        beside = Publication.objects.filter(endpoint__base_url=publication.endpoint.base_url).live()
    beside.exclude(pk=publication.pk).update(state=State.REPLACED, ended_at=now())
    _write(publication, state=State.LIVE, canary=canary, location=location, live_at=now(), leased_until=None)
    auditing.record(
        workspace=publication.workspace,
        actor=publication.by,
        action="published",
        subject=str(publication),
        about=publication.policy,
        canary=canary,
    )


def refuse(publication: Publication, *, reason: str, canary: dict[str, Any]) -> None:
    """What answered is not the policy. What was live before still is. Raises Superseded."""
    _write(publication, state=State.REFUSED, error=reason, canary=canary, ended_at=now(), leased_until=None)


def fail(publication: Publication, *, reason: str) -> None:
    """It could not be done. What was live before still is. Raises Superseded."""
    _write(publication, state=State.FAILED, error=reason, ended_at=now(), leased_until=None)


def withdraw(publication: Publication, *, reason: str, canary: dict[str, Any]) -> None:
    """It was live and the canary refuses it now: nothing answers under its name any more. Told twice, the second does nothing."""
    Publication.objects.live().filter(pk=publication.pk).update(
        state=State.REFUSED, error=reason, canary=canary, ended_at=now()
    )


def recover_publications() -> list[Publication]:
    """Give orphaned publications to other workers, and remind the workers of those that wait too long. Returns those changed."""
    recovered = []
    for publication in Publication.objects.orphaned()[:100]:
        lost = Publication.objects.orphaned().filter(pk=publication.pk, attempt=publication.attempt)
        if publication.attempt >= MAX_ATTEMPTS:
            reason = (
                f"{publication.attempt} workers in a row stopped answering while they published it. See their logs."
            )
            changed = lost.update(state=State.FAILED, error=reason, ended_at=now(), leased_until=None)
        else:
            changed = lost.update(state=State.WAITING, worker="")
        if changed:
            recovered.append(publication)
    for publication in Publication.objects.overlooked()[:100]:
        queue(publication)
    return recovered


def _write(publication: Publication, **changes: Any) -> None:
    if not Publication.objects.held(publication.attempt).filter(pk=publication.pk).update(**changes):
        raise Superseded(publication)
