"""Requesting a deletion, and the worker's part of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.models import Membership
from apps.jobs import lifecycle
from apps.jobs.models import Failure, Kind, Superseded, register
from apps.removal import deletion, dependents, retention
from apps.removal.models import Removal

TASK = "removal.remove"

REMOVALS = register(
    Kind(
        name="removals",
        noun="deletion",
        label="Deletion",
        model=Removal,
        task=lambda removal: TASK,
        title=lambda removal: f"Delete {removal.get_thing_display().lower()} {removal.title}",
        url=lambda removal: reverse("removal:removal", args=[removal.pk]),
        related=("workspace", "created_by"),
        is_cancellable=True,
        lane="upkeep",
    )
)


def ask_for_removal(*, thing: str, target: Any, by: Membership) -> Removal:
    """Have a worker delete the target; repeated requests return the same deletion. Raises deletion.StillNeeded."""
    outlook = deletion.outlook(target)
    if outlook.blockers:
        raise deletion.StillNeeded(outlook.blockers)
    try:
        with transaction.atomic():
            removal = Removal.objects.create(
                workspace=by.workspace, thing=thing, target=target.pk, title=outlook.title, created_by=by.user
            )
            audit.record(
                workspace=by.workspace,
                actor=by.user,
                action="asked to delete",
                subject=f"{removal.get_thing_display().lower()} {removal.title}",
                target=target,
                **{"would go": outlook.goes},
            )
            lifecycle.queue(removal)
    except IntegrityError:  # the same deletion was requested before or concurrently
        return Removal.objects.filter(workspace=by.workspace, thing=thing, target=target.pk).latest("pk")
    return removal


def remove(removal_id: UUID) -> bool:
    """Carry out a deletion, completely or not at all. False if it's done, or held by another worker."""
    removal = lifecycle.claim(REMOVALS, removal_id)
    if removal is None:
        return False
    try:
        with lifecycle.lease_kept(removal):
            if removal.thing == Removal.Thing.EXPIRED:
                retention.carry_out(removal)
            else:
                _carry_out(removal)
    except (deletion.StillNeeded, deletion.TooMany) as refusal:
        lifecycle.fail(removal, Failure("needed", str(refusal)))
    except (dependents.Rests, IntegrityError):
        message = "Something that refers to it was added meanwhile, so nothing was deleted. Check it, and request the deletion again."
        lifecycle.fail(removal, Failure("needed", message))
    except Superseded:
        return False
    return True


@transaction.atomic
def _carry_out(removal: Removal) -> None:
    """Commits the deletion, its record, and the end of the job in one transaction. A target that is already gone counts as deleted."""
    target = deletion.target_of(removal.thing, removal.target, removal.workspace)
    removed = deletion.delete(target) if target else {}
    audit.record(
        workspace=removal.workspace,
        actor=removal.created_by,
        action="deleted",
        subject=f"{removal.get_thing_display().lower()} {removal.title}",
        target=removal.target,
        **removed,
    )
    lifecycle.finish(removal, removed=removed)
