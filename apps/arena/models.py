"""Blind comparisons between two policies."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import CheckConstraint, F, Index, Q

from apps.accounts.models import User, WorkspaceModel, WorkspaceQuerySet
from apps.annotation.models import Queue
from apps.arena.stopping_rule import StoppingRule
from apps.policies.models import Policy
from apps.trajectories.models import RolloutBatch


class Experiment(WorkspaceModel):
    """Two policies attempt the same held-out tasks; people who do not know which is which compare the trajectories.

    The stopping rule is fixed when the experiment starts: peeking at a moving interval would make it dishonest.
    """

    class State(models.TextChoices):
        ROLLING_OUT = "rolling_out", "Rolling out"
        LABELLING = "labelling", "Being labeled"
        STOPPED = "stopped", "Decided"
        FAILED = "failed", "Failed"

    NO_ENVIRONMENT = "no environment"
    """Stands for the environment of tasks that name none, as where a policy is champion."""

    name = models.CharField(max_length=200)
    environment = models.CharField(max_length=100)
    policy_a = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="+")
    policy_b = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="+")
    rollouts_a = models.ForeignKey(RolloutBatch, on_delete=models.PROTECT, null=True, related_name="+")
    rollouts_b = models.ForeignKey(RolloutBatch, on_delete=models.PROTECT, null=True, related_name="+")
    recorded_a = ArrayField(
        models.UUIDField(), default=list, help_text="Trajectories of A that existed before, where it rolled out none."
    )
    recorded_b = ArrayField(models.UUIDField(), default=list)
    queue = models.OneToOneField(Queue, on_delete=models.PROTECT, null=True, related_name="experiment")
    plan = models.JSONField(default=dict, help_text="tasks, samples, seed, overlap, rule: fixed at the start.")
    state = models.CharField(max_length=12, choices=State.choices, default=State.ROLLING_OUT)
    alike = models.JSONField(
        default=list,
        help_text="Pairs that cannot be told apart, ties that nobody is asked about: [task, how many asked pairs come before].",
    )
    verdict = models.JSONField(default=dict, help_text="The figures at the moment it stopped.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    error = models.TextField(blank=True)
    stopped_at = models.DateTimeField(null=True)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(
                condition=~Q(policy_a=F("policy_b")),
                name="an_experiment_needs_two_policies",
            )
        ]
        indexes = [
            Index(fields=["workspace", "-id"], name="experiment_newest"),
            Index(fields=["workspace", "name", "id"], name="experiment_by_name"),
            Index(fields=["state"], condition=~Q(state="stopped"), name="experiment_undecided"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_recorded(self) -> bool:
        """Whether it compares trajectories that existed before."""
        return bool(self.plan.get("source") == "recorded")

    @property
    def rule(self) -> StoppingRule:
        """The stopping rule that was written down when the experiment began."""
        return StoppingRule(**self.plan.get("rule", {}))
