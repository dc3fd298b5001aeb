"""Creating traffic splits, changing their arms, turning them on or off, and removing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.gateway.splits.models import Arm, TrafficSplit
from apps.gateway.targets import target_of
from apps.policies import promotions
from apps.policies.models import Policy
from apps.policies.publication import NAME

MAX_ARMS = 5
"""Including the canary. With more arms, each would get too few sessions for conclusions."""


class SplitRefused(Exception):
    """What was wrong, and what to do. `field` is the one to change."""

    field = ""


class BadName(SplitRefused):
    """The name can't be used as `model`."""

    field = "name"


class BadArms(SplitRefused):
    """The arms are invalid."""

    field = "arms"


class NoChampion(SplitRefused):
    """The environment has no champion, or a different one."""

    field = "champion"


class UnderComparison(SplitRefused):
    """A live experiment compares its arms."""

    field = "arms"


class ChangedMeanwhile(SplitRefused):
    """Its arms aren't those that the form showed."""


class InUse(SplitRefused):
    """Sessions refer to it."""


class ArmPlan(NamedTuple):
    """A planned arm; a canary's weight is its percentage."""

    policy: Policy
    weight: int
    is_canary: bool = False


@transaction.atomic
def create_split(
    *,
    workspace: Workspace,
    name: str,
    arms: Sequence[ArmPlan],
    environment: str = "",
    champion: Policy | None = None,
    unit: str = TrafficSplit.Unit.SESSION,
    by: User,
) -> TrafficSplit:
    """Create a split that is on. If its environment has no champion, `champion` becomes it. Raises SplitRefused."""
    environment = environment or promotions.NO_ENVIRONMENT
    _refuse_name(workspace, name)
    _refuse_arms(arms)
    _settle_champion(workspace, environment, champion, name, by)
    try:
        with transaction.atomic():
            split = TrafficSplit.objects.create(
                workspace=workspace,
                name=name,
                environment=environment,
                unit=unit,
                arms_changed_at=now(),
                created_by=by,
            )
    except IntegrityError:
        raise _name_taken(name) from None
    _store_arms(split, arms)
    _record_audit(split, by, "made traffic split", environment=environment, unit=unit, arms=_arm_texts(arms))
    return split


@transaction.atomic
def change_split(
    *, split: TrafficSplit, arms: Sequence[ArmPlan], unit: str | None = None, by: User, seen: str = ""
) -> TrafficSplit:
    """Set the arms of a split for new sessions. seen: the version of the arms that a form showed. Raises SplitRefused."""
    locked = TrafficSplit.objects.select_for_update(no_key=True).get(pk=split.pk)
    if seen and seen != version_of(locked):
        raise ChangedMeanwhile("Somebody changed these arms meanwhile. Reload the page and make your change again.")
    before = {(arm.policy_id, arm.weight, arm.is_canary) for arm in locked.arms.all()}
    after = {(arm.policy.pk, arm.weight, arm.is_canary) for arm in arms}
    unit = unit or locked.unit
    if before == after and unit == locked.unit:
        return locked
    if locked.experiment is not None and {arm[0] for arm in before} != {arm[0] for arm in after}:
        raise UnderComparison(
            "A live experiment compares these policies. Their shares may change; end it to change who takes part."
        )
    if locked.experiment is not None and unit != locked.unit:
        raise UnderComparison("A live experiment is running. End it to draw by something else.")
    _refuse_arms(arms)
    locked.arms.all().delete()
    _store_arms(locked, arms)
    locked.unit, locked.arms_changed_at = unit, now()
    locked.save(update_fields=["unit", "arms_changed_at"])
    _record_audit(locked, by, "changed traffic split", unit=unit, arms=_arm_texts(arms))
    return locked


def version_of(split: TrafficSplit) -> str:
    """Changes with the arms, so that of two tabs editing them the second gets a conflict."""
    return split.arms_changed_at.isoformat()


@transaction.atomic
def switch(*, split: TrafficSplit, is_on: bool, by: User | None, reason: str = "") -> TrafficSplit:
    """Turn the split off, so that the champion answers every new session, or on again. Idempotent."""
    if TrafficSplit.objects.filter(pk=split.pk).exclude(is_on=is_on).update(is_on=is_on):
        detail = {"reason": reason} if reason else {}
        _record_audit(split, by, f"turned traffic split {'on' if is_on else 'off'}", **detail)
    split.is_on = is_on
    return split


@transaction.atomic
def remove_split(*, split: TrafficSplit, by: User) -> None:
    """Delete a split that no session has used. Raises InUse."""
    pk = split.pk
    try:
        split.delete()
    except ProtectedError:
        raise InUse(
            f"Sessions use {split}, so it can't be removed. Turn it off instead: then the champion answers."
        ) from None
    split.pk = pk
    _record_audit(split, by, "removed traffic split")


def _refuse_name(workspace: Workspace, name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadName(f"Got {name!r}; expected letters, digits, dots, dashes and underscores, 80 at most.")
    if TrafficSplit.objects.filter(workspace=workspace, name=name).exists():
        raise _name_taken(name)
    if Policy.objects.filter(workspace=workspace, name=name).exists():
        raise BadName(
            f"There is a policy {name!r}. Choose another name, or agents that ask for the policy would get the split."
        )


def _name_taken(name: str) -> BadName:
    return BadName(f"There is a traffic split {name!r} already. Choose another name.")


def _refuse_arms(arms: Sequence[ArmPlan]) -> None:
    policies = [arm.policy for arm in arms]
    if all(arm.is_canary for arm in arms):
        raise BadArms("Give at least one arm besides the canary, to answer most sessions.")
    if len(arms) > MAX_ARMS:
        raise BadArms(f"Got {len(arms)} arms; expected {MAX_ARMS} at most.")
    if len({policy.pk for policy in policies}) < len(policies):
        raise BadArms("The same policy is given twice. Give it once, with its total weight.")
    if unserved := [policy.name for policy in policies if target_of(policy) is None]:
        raise BadArms(f"{', '.join(unserved)}: not served anywhere. Publish it on a server first.")


def _settle_champion(workspace: Workspace, environment: str, new_champion: Policy | None, name: str, by: User) -> None:
    champion = promotions.champion(workspace=workspace, environment=environment)
    if champion is None and new_champion is None:
        raise NoChampion(f"{environment} has no champion yet. Choose who answers where an arm can't be reached.")
    if champion and new_champion and champion != new_champion:
        raise NoChampion(f"{champion} is the champion of {environment}. Promote another one from an experiment.")
    policy = champion or new_champion
    assert policy is not None
    if target_of(policy) is None:
        raise NoChampion(
            f"{policy}, the champion of {environment}, isn't served anywhere. Publish it on a server first."
        )
    if champion is None:
        promotions.promote(
            policy=policy,
            environment=environment,
            by=by,
            reason=f"The first champion, chosen with the traffic split {name}.",
        )


def _store_arms(split: TrafficSplit, arms: Sequence[ArmPlan]) -> None:
    Arm.objects.bulk_create(Arm(split=split, **arm._asdict()) for arm in arms)


def _arm_texts(arms: Sequence[ArmPlan]) -> list[str]:
    return [f"{arm.policy}: {arm.weight}{' % (canary)' if arm.is_canary else ''}" for arm in arms]


def _record_audit(split: TrafficSplit, by: User | None, action: str, **detail: Any) -> None:
    audit.record(workspace=split.workspace, actor=by, action=action, subject=split.name, target=split, **detail)
