"""Models of traffic splits. Their sessions are in `apps.gateway.models`."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from apps.accounts.models import User, WorkspaceModel, WorkspaceQuerySet
from apps.gateway.splits.rendezvous import shares_of
from apps.policies.models import Policy

LARGEST_WEIGHT = 1000
LARGEST_CANARY = 50
"""In percent: with a larger share it isn't a canary."""


class TrafficSplit(WorkspaceModel):
    """A model name that agents request. Each of its sessions is routed to an arm drawn by weight; if the split is off, to the champion."""

    class Unit(models.TextChoices):
        SESSION = "session", "Each session by itself"
        TASK = "task", "By task"
        UNIT = "unit", "By `unit` or `user`"

    name = models.CharField(
        max_length=80, help_text="The name that agents send as `model`, or as `split` when they open a session."
    )
    environment = models.CharField(
        max_length=100, help_text="The environment whose champion answers if an arm is unreachable."
    )
    unit = models.CharField(
        max_length=10,
        choices=Unit.choices,
        default=Unit.SESSION,
        help_text="What an arm is drawn for: the same unit always gets the same arm.",
    )
    is_on = models.BooleanField(default=True, help_text="If off, the champion answers all new sessions.")
    arms_changed_at = models.DateTimeField(help_text="Since when the current arms and shares apply.")
    experiment = models.UUIDField(null=True, help_text="The live experiment that new sessions take part in.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["workspace", "name"], name="one_traffic_split_per_name")]
        indexes = [Index(fields=["workspace", "-id"], name="traffic_split_newest")]

    def __str__(self) -> str:
        return self.name


class Arm(models.Model):
    """A policy of a split, with its relative weight; the canary's is its percentage of all sessions."""

    split = models.ForeignKey(TrafficSplit, on_delete=models.CASCADE, related_name="arms")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="+")
    weight = models.PositiveSmallIntegerField()
    is_canary = models.BooleanField(default=False)

    class Meta:
        constraints = [
            UniqueConstraint(fields=["split", "policy"], name="one_arm_per_policy"),
            UniqueConstraint("split", condition=Q(is_canary=True), name="one_canary_per_split"),
            CheckConstraint(
                condition=Q(is_canary=False, weight__range=(1, LARGEST_WEIGHT))
                | Q(is_canary=True, weight__range=(1, LARGEST_CANARY)),
                name="arm_has_a_weight",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.policy} in {self.split}"


def shares(arms: list[Arm]) -> dict[Arm, float]:
    """Each arm's share of the sessions."""
    canary = next((arm.weight for arm in arms if arm.is_canary), 0)
    weights = {arm: arm.weight for arm in arms if not arm.is_canary}
    weight_shares = shares_of(weights, canary / 100)
    return {arm: canary / 100 if arm.is_canary else weight_shares[arm] for arm in arms}
