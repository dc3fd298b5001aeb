"""Deletions requested by a person or a retention rule, which a worker carries out; and retention rules."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from apps.accounts.models import Role, User, WorkspaceModel, WorkspaceQuerySet
from apps.jobs.models import Job, JobQuerySet, JobState


class RemovalQuerySet(JobQuerySet["Removal"]):
    """Typed queryset of deletions."""


class Removal(Job):
    """The deletion of one thing with everything that belongs to it."""

    class Thing(models.TextChoices):
        TRAJECTORY = "trajectory", "Trajectory"
        TASK = "task", "Task"
        QUEUE = "queue", "Queue"
        DATASET = "dataset", "Dataset"
        VERSION = "version", "Dataset version"
        EXPIRED = "expired", "Expired trajectories"

    thing = models.CharField(max_length=12, choices=Thing.choices)
    target = models.UUIDField(
        help_text="Id of the thing to delete, which no longer exists once the job is done; for expired trajectories, the retention rule's id."
    )
    title = models.CharField(max_length=200, help_text="The thing's name before deletion.")
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.WAITING)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    removed = models.JSONField(default=dict, help_text="Number of deleted objects by description.")

    objects = RemovalQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(state__in=JobState.values), name="removal_state_is_known"),
            UniqueConstraint(
                fields=["thing", "target"],
                condition=Q(state__in=["waiting", "running"]),
                name="one_removal_at_a_time",
            ),
        ]
        indexes = [
            Index(fields=["workspace", "-id"], name="removal_newest"),
            Index(fields=["leased_until"], condition=Q(state__in=["waiting", "running"]), name="removal_leases"),
        ]

    def __str__(self) -> str:
        return f"{self.get_thing_display()} {self.title}"

    @property
    def is_by_rule(self) -> bool:
        """Whether a retention rule requested it, which deletes in batches: what is deleted stays so if it's cancelled."""
        return self.thing == self.Thing.EXPIRED

    @property
    def resumes_from(self) -> str:
        return "the beginning"


class RetentionRule(WorkspaceModel):
    """How long unused trajectories of one source are kept."""

    visible_from = Role.OWNER

    source = models.CharField(max_length=50, help_text="A trajectory's source: an import format, rollout, gateway…")
    days = models.PositiveSmallIntegerField(help_text="Days for which trajectories are kept after they were added.")
    is_on = models.BooleanField(default=False)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    ran_at = models.DateTimeField(null=True, help_text="When the rule last requested a deletion.")

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["workspace", "source"], name="one_retention_rule_per_source"),
            CheckConstraint(condition=Q(days__range=(1, 3650)), name="retention_is_a_day_to_ten_years"),
        ]
        indexes = [Index(fields=["ran_at"], condition=Q(is_on=True), name="retention_rule_in_force")]

    def __str__(self) -> str:
        return f"{self.source}, {self.days} days"
