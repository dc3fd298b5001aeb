"""Policies (models that act or score), their endpoints and publications, and which one is the champion."""

from __future__ import annotations

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint

from apps.accounts.models import User, WorkspaceModel, WorkspaceQuerySet
from apps.jobs.models import Job, JobQuerySet, Phase

MAX_ADDRESS = 300
"""Characters of a server's address."""


class PolicyQuerySet(WorkspaceQuerySet["Policy"]):
    def archived(self, *, is_archived: bool = True) -> Self:
        return self.filter(archived_at__isnull=not is_archived)

    def acting(self) -> Self:
        """Policies that can attempt a task."""
        return self.filter(archived_at=None).exclude(kind__in=Policy.SILENT)

    def trainable(self) -> Self:
        """Policies whose weights a run can start from."""
        return self.filter(kind=Policy.Kind.MODEL, archived_at=None)


class Policy(WorkspaceModel):
    """Something that generated trajectories, or scores them: weights, a script, a served model, or only a name."""

    class Kind(models.TextChoices):
        MODEL = "model", "Language model"
        REWARD_MODEL = "reward_model", "Reward model"
        PROCESS_MODEL = "process_model", "Process reward model"
        SCRIPTED = "scripted", "Scripted rule"
        ENDPOINT = "endpoint", "Served model"
        EXTERNAL = "external", "Known by name only"

    SILENT = (Kind.REWARD_MODEL, Kind.PROCESS_MODEL, Kind.EXTERNAL)
    """Kinds that can't attempt a task: they only score, or the model isn't available here."""

    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    description = models.TextField(blank=True)
    base = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="descendants")
    location = models.CharField(
        max_length=500,
        blank=True,
        help_text="A folder under MODEL_ROOTS, a hub id, a script's name, or a model's name on its server; empty if a training run made the policy.",
    )
    endpoint = models.ForeignKey("Endpoint", on_delete=models.PROTECT, null=True, related_name="policies")
    settings = models.JSONField(default=dict, help_text="Sampling, LoRA, and script parameters.")
    report = models.JSONField(default=dict, help_text="Its training run's measurements on held-out data.")
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
        indexes = [models.Index(fields=["workspace", "-id"], name="policy_newest")]

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


class EndpointQuerySet(WorkspaceQuerySet["Endpoint"]):
    def sharing(self, addresses: list[str]) -> Self:
        """Endpoints of any workspace that include one of these servers."""
        return self.filter(Q(base_url__in=addresses) | Q(replicas__overlap=addresses))


class Endpoint(WorkspaceModel):
    """An OpenAI-compatible server, such as vLLM, or several replicas of one. The key comes from the environment, never from the database."""

    name = models.CharField(max_length=100)
    base_url = models.URLField(max_length=MAX_ADDRESS)
    replicas = ArrayField(
        models.URLField(max_length=MAX_ADDRESS),
        default=list,
        blank=True,
        help_text="Additional servers with the same models as the first.",
    )
    key_variable = models.CharField(
        max_length=60,
        blank=True,
        help_text="Name of the environment variable that holds the API key.",
    )

    objects = EndpointQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["workspace", "name"], name="one_endpoint_per_name")]

    def __str__(self) -> str:
        return self.name

    @property
    def addresses(self) -> list[str]:
        """The base URLs of all its servers, with the version: http://127.0.0.1:8000/v1."""
        return [self.base_url, *self.replicas]


class PromotionQuerySet(WorkspaceQuerySet["Promotion"]):
    def current(self) -> Self:
        """The latest promotion of each environment, whose policy is the champion there."""
        return self.order_by("environment", "-id").distinct("environment")


class Promotion(WorkspaceModel):
    """A policy became champion of an environment: by whom, why, on what evidence. The latest one counts.

    A rollback is another promotion, of the previous policy.
    """

    environment = models.CharField(max_length=100)
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="promotions")
    previous = models.ForeignKey(Policy, on_delete=models.PROTECT, null=True, related_name="+")
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    reason = models.TextField()
    evidence = models.JSONField(
        default=dict, help_text="The experiment's id, and its figures at the time of the promotion."
    )
    is_rollback = models.BooleanField(default=False)

    objects = PromotionQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["workspace", "environment", "-id"], name="promotion_newest")]


class PublicationQuerySet(JobQuerySet["Publication"]):
    def live(self) -> Self:
        return self.filter(state=Publication.State.LIVE)

    def beside(self, publication: Publication) -> Self:
        """All publications, past and present, in the same place under the same name."""
        return self.filter(workspace=publication.workspace_id, endpoint=publication.endpoint_id, name=publication.name)


class Publication(Job):
    """A policy made available under a name: in a folder, or on a server. The live publication of a name is the one that answers.

    Servers don't know the name, only `served_name`: Retrace translates it with each request. So the old and the new policy are loaded at the
    same time, and switching to the new one is a single write here. A rollback is another publication, of the previous policy.
    """

    class Way(models.TextChoices):
        FOLDER = "folder", "Folder"
        ADAPTER = "adapter", "LoRA adapter, swapped while the server runs"
        RESTART = "restart", "Whole model, the server restarts"

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        WORKING = "working", "Being published"
        LIVE = "live", "Live"
        REPLACED = "replaced", "Replaced"
        REFUSED = "refused", "Refused by the canary"
        FAILED = "failed", "Failed"

    PHASES = {  # overrides the class variable of Job
        State.WAITING: Phase.WAITING,
        State.WORKING: Phase.RUNNING,
        State.LIVE: Phase.DONE,
        State.REPLACED: Phase.DONE,
        State.FAILED: Phase.FAILED,
        State.REFUSED: Phase.FAILED,
    }

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="publications")
    way = models.CharField(max_length=10, choices=Way.choices)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, null=True, related_name="publications")
    name = models.CharField(
        max_length=100, help_text="Public name: an alias of the live publication, or a folder's name."
    )
    served_name = models.CharField(
        max_length=120,
        blank=True,
        help_text="Its name on the server. Unique among publications, so that a server can't answer from another one's cache.",
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    is_rollback = models.BooleanField(default=False)
    location = models.CharField(max_length=500, blank=True, help_text="The folder that is served, or that was written.")
    canary = models.JSONField(
        default=dict, help_text="The canary's verdict: distances to the trainer's policy and to the base."
    )
    by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    live_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True, help_text="When the publication failed, or stopped answering.")

    objects = PublicationQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(
                condition=Q(way="folder", endpoint=None) | (~Q(way="folder") & Q(endpoint__isnull=False)),
                name="served_publication_has_an_endpoint",
            ),
            UniqueConstraint(
                fields=["served_name"], condition=Q(way="adapter"), name="one_publication_per_served_name"
            ),
            UniqueConstraint(
                fields=["workspace", "endpoint", "name"],
                condition=Q(state="live"),
                nulls_distinct=False,
                name="one_live_publication_per_name",
            ),
            UniqueConstraint(
                fields=["workspace", "endpoint", "name"],
                condition=Q(state__in=["waiting", "working"]),
                nulls_distinct=False,
                name="one_publication_at_a_time_per_name",
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "-id"], name="publication_newest"),
            models.Index(
                fields=["leased_until"], condition=Q(state__in=["waiting", "working"]), name="publication_leases"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.policy} as {self.name}"

    @property
    def advice_when_lost(self) -> str:
        return "See the workers' logs, then publish it again."
