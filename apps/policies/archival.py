"""Archiving of policies that are no longer needed: they leave lists and choices, and everything that depends on them stays."""

from django.db import transaction
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import User
from apps.policies.models import Policy
from apps.policies.promotions import environments_of


class IsChampion(Exception):
    """A champion can't be archived."""


@transaction.atomic
def archive_policy(*, policy: Policy, by: User) -> None:
    """Archive `policy`, unless it's archived already. Raises IsChampion."""
    if environments := environments_of(policy):
        raise IsChampion(
            f"{policy} is the champion of {environments[0]}. Promote another policy there, or roll back, and try again."
        )
    if Policy.objects.filter(pk=policy.pk, archived_at=None).update(archived_at=now()):
        audit.record(
            workspace=policy.workspace, actor=by, action="archived", subject=f"the policy {policy.name}", target=policy
        )


@transaction.atomic
def restore_policy(*, policy: Policy, by: User) -> None:
    """Undo `archive_policy`."""
    if Policy.objects.filter(pk=policy.pk).exclude(archived_at=None).update(archived_at=None):
        audit.record(
            workspace=policy.workspace, actor=by, action="restored", subject=f"the policy {policy.name}", target=policy
        )
