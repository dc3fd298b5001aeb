"""State changes of a publication, written by the worker that holds it. All are idempotent."""

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
    """Mark it as verified and live, and the publication that was live under its name as replaced. Raises Superseded."""
    same_alias = Publication.objects.beside(publication).live()
    if publication.way == Publication.Way.RESTART:  # the restart dropped all adapters on the server, of every workspace
        assert publication.endpoint is not None, "ensured by a constraint"
        sharing = Endpoint.objects.sharing(publication.endpoint.addresses)
        same_alias = Publication.objects.filter(endpoint__in=sharing).live()
    same_alias.exclude(pk=publication.pk).update(state=State.REPLACED, ended_at=now())
    lifecycle.finish(publication, canary=canary, location=location, live_at=now())
    audit.record(
        workspace=publication.workspace,
        actor=publication.by,
        action="published",
        subject=str(publication),
        target=publication.policy,
        canary=canary,
    )


def refuse(publication: Publication, *, reason: str, canary: dict[str, Any]) -> None:
    """Record that the server's answers don't match the policy. The previous publication stays live. Raises Superseded."""
    lifecycle.fail(publication, Failure("refused", reason), state=State.REFUSED, canary=canary)


@transaction.atomic
def withdraw(publication: Publication, *, reason: str, canary: dict[str, Any]) -> None:
    """Take down a live publication whose canary now fails; its name is no longer served. Idempotent."""
    live = Publication.objects.live().filter(pk=publication.pk)
    if live.update(state=State.REFUSED, failure=Failure("refused", reason).as_json(), canary=canary, ended_at=now()):
        audit.record(
            workspace=publication.workspace,
            actor=None,
            action="took down",
            subject=str(publication),
            target=publication.policy,
            reason=reason,
            canary=canary,
        )
