"""Champions of environments: promotion and rollback."""

from typing import Any

from django.db import transaction
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.policies.models import Policy, Promotion
from apps.webhooks.events import EventType
from apps.webhooks.outbox import announce

NO_ENVIRONMENT = "no environment"
"""Stands for the environment of tasks that name none."""


class AlreadyChampion(Exception):
    """The policy is the champion already: a double click, or a concurrent promotion."""


class NothingToRollBackTo(Exception):
    """There's no previous champion."""


class ChampionChanged(Exception):
    """Another policy is the champion by now than the one to roll back: a stale page, or a concurrent rollback."""


def champion(*, workspace: Workspace, environment: str) -> Policy | None:
    """The current champion of `environment`."""
    latest = _history(workspace, environment).select_related("policy").order_by("-id").first()
    return latest.policy if latest else None


def champions(*, workspace: Workspace, environment: str) -> list[Policy]:
    """The champions of `environment` that weren't rolled back, in order; the last one is the current champion."""
    policies: list[Policy] = []
    for promotion in _history(workspace, environment).select_related("policy").order_by("id"):
        if promotion.is_rollback:
            policies.pop()
        else:
            policies.append(promotion.policy)
    return policies


@transaction.atomic
def promote(
    *, policy: Policy, environment: str, by: User, reason: str, evidence: dict[str, Any] | None = None
) -> Promotion:
    """Make `policy` the champion; an archived one is restored. Raises AlreadyChampion."""
    _lock(policy.workspace)
    current = champion(workspace=policy.workspace, environment=environment)
    if current == policy:
        raise AlreadyChampion(f"{policy} is the champion of {environment} already.")
    return _record(policy, current, environment, by, reason, evidence or {}, is_rollback=False)


@transaction.atomic
def roll_back(*, workspace: Workspace, environment: str, by: User, reason: str, seen: str = "") -> Promotion:
    """Promote the previous champion again, restored if it was archived. Raises NothingToRollBackTo, ChampionChanged.

    Repeated rollbacks go further back, like undo, instead of toggling between two. seen: the id of the champion that somebody saw, so that two
    people who roll it back at once go back only one.
    """
    _lock(workspace)
    reigns = champions(workspace=workspace, environment=environment)
    if seen and reigns and seen != str(reigns[-1].pk):
        raise ChampionChanged(f"Nothing was rolled back: {reigns[-1]} is the champion of {environment} by now.")
    if len(reigns) < 2:
        raise NothingToRollBackTo(f"{environment} had no champion before this one.")
    return _record(reigns[-2], reigns[-1], environment, by, reason, {}, is_rollback=True)


def environments_of(policy: Policy) -> list[str]:
    """The environments whose champion it is. No promotion in its workspace can change them before this transaction ends."""
    _lock(policy.workspace)
    current = Promotion.objects.filter(workspace=policy.workspace).current()
    return sorted(promotion.environment for promotion in current if promotion.policy_id == policy.pk)


def _history(workspace: Workspace, environment: str) -> Any:
    return Promotion.objects.filter(workspace=workspace, environment=environment)


def _lock(workspace: Workspace) -> None:
    """Serializes a workspace's promotions, since each records which one it replaced."""
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)


def _record(
    policy: Policy,
    previous: Policy | None,
    environment: str,
    by: User,
    reason: str,
    evidence: dict[str, Any],
    *,
    is_rollback: bool,
) -> Promotion:
    Policy.objects.filter(pk=policy.pk).update(archived_at=None)
    promotion = Promotion.objects.create(
        workspace=policy.workspace,
        environment=environment,
        policy=policy,
        previous=previous,
        by=by,
        reason=reason,
        evidence=evidence,
        is_rollback=is_rollback,
    )
    audit.record(
        workspace=policy.workspace,
        actor=by,
        action="rolled back" if is_rollback else "promoted",
        subject=f"{policy.name} to champion of {environment}",
        target=policy,
        reason=reason,
        previous=str(previous.pk) if previous else None,
    )
    announce(
        EventType.POLICY_PROMOTED,
        workspace_id=policy.workspace_id,
        name=f"{policy.name} is the champion of {environment}",
        page=reverse("policies:policy", args=[policy.pk]),
        id=str(policy.pk),
        environment=environment,
        is_rollback=is_rollback,
    )
    return promotion
