"""A policy takes over in the middle of a trajectory."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from apps.common.fields import FaithfulJSONField
from apps.jobs.models import Headway, Job, JobQuerySet, JobState
from apps.policies.models import Policy
from apps.trajectories.models import Trajectory


class ContinuationQuerySet(JobQuerySet["Continuation"]):
    """Typed queryset of continuations."""


class Continuation(Job):
    """A policy at one step of a trajectory: samples its actions there or, given another action, continues to the end."""

    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="continuations")
    index = models.PositiveIntegerField(help_text="0-based index of the step at which the policy takes over.")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="+")
    count = models.PositiveSmallIntegerField(
        help_text="Number of actions to sample; 1 if the policy continues to the end."
    )
    temperature = models.FloatField(default=1.0)
    action = FaithfulJSONField(
        null=True, help_text="Action taken at the step before the policy continues; null: actions are sampled."
    )
    action_hash = models.CharField(max_length=64, blank=True)
    messages = FaithfulJSONField(default=list, help_text="The distinct actions sampled.")
    branch = models.ForeignKey(Trajectory, on_delete=models.SET_NULL, null=True, related_name="+")
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.WAITING)
    done = models.PositiveSmallIntegerField(default=0)

    objects = ContinuationQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["trajectory", "index", "policy", "count", "temperature", "action_hash"],
                condition=~Q(state="failed"),
                name="one_continuation_of_a_kind",
            ),
            CheckConstraint(condition=Q(state__in=JobState.values), name="continuation_state_is_known"),
        ]
        indexes = [
            Index(fields=["leased_until"], condition=Q(state__in=["waiting", "running"]), name="continuation_leases")
        ]

    @property
    def headway(self) -> Headway:
        return Headway(self.done, self.count, "actions")

    @property
    def advice_when_lost(self) -> str:
        return "Ask again later."
