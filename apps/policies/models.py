"""What acts, what scores, and which of them is the champion."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint

from apps.accounts.models import User, WorkspaceModel, WorkspaceQuerySet


class PolicyQuerySet(WorkspaceQuerySet["Policy"]):
    def acting(self) -> Self:
        """Those that can attempt a task."""
        return self.filter(archived_at=None).exclude(kind__in=[Policy.Kind.REWARD_MODEL, Policy.Kind.EXTERNAL])

    def trainable(self) -> Self:
        """Those whose weights a run can start from."""
        return self.filter(kind=Policy.Kind.MODEL, archived_at=None)


class Policy(WorkspaceModel):
    """Something that produced trajectories, or scores them: weights, a script, a served model, or only a name."""

    class Kind(models.TextChoices):
        MODEL = "model", "Language model"
        REWARD_MODEL = "reward_model", "Reward model"
        SCRIPTED = "scripted", "Scripted rule"
        ENDPOINT = "endpoint", "Served model"
        EXTERNAL = "external", "Known by name only"

    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    description = models.TextField(blank=True)
    base = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="descendants")
    location = models.CharField(
        max_length=500,
        blank=True,
        help_text="A folder under RUNS_DIR, a hub id, the name of a script, or a server's model name.",
    )
    endpoint = models.ForeignKey("Endpoint", on_delete=models.PROTECT, null=True, related_name="policies")
    settings = models.JSONField(default=dict, help_text="Sampling, LoRA and script parameters.")
    report = models.JSONField(default=dict, help_text="What its run measured on held-out data.")
    archived_at = models.DateTimeField(null=True)

    objects = PolicyQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["workspace", "name"], name="one_policy_per_name"),
            CheckConstraint(
                condition=~Q(kind="endpoint") | Q(endpoint__isnull=False),
                name="served_policy_has_an_endpoint",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Checkpoint(models.Model):
    """A saved state of a policy in training, from which its run resumes."""

    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="checkpoints")
    step = models.PositiveIntegerField()
    location = models.CharField(max_length=500)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [UniqueConstraint(fields=["policy", "step"], name="one_checkpoint_per_step")]


class Endpoint(WorkspaceModel):
    """An OpenAI-compatible server, such as vLLM. Its key comes from the environment, never from the database."""

    name = models.CharField(max_length=100)
    base_url = models.URLField(max_length=300)
    key_variable = models.CharField(
        max_length=60,
        blank=True,
        help_text="The environment variable with the API key.",
    )

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["workspace", "name"], name="one_endpoint_per_name")]

    def __str__(self) -> str:
        return self.name


class PromotionQuerySet(WorkspaceQuerySet["Promotion"]):
    def current(self) -> Self:
        """The latest of each environment: its policy is the champion there."""
        return self.order_by("environment", "-id").distinct("environment")


class Promotion(WorkspaceModel):
    """The fact that a policy became champion of an environment: by whom, why, on what evidence. The latest one holds.

    Rolling back is another promotion, of the policy before.
    """

    environment = models.CharField(max_length=100)
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="promotions")
    previous = models.ForeignKey(Policy, on_delete=models.PROTECT, null=True, related_name="+")
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    reason = models.TextField()
    evidence = models.JSONField(default=dict, help_text="The experiment's figures at that moment, and its id.")
    is_rollback = models.BooleanField(default=False)

    objects = PromotionQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["workspace", "environment", "-id"], name="promotion_newest")]
