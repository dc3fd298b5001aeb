"""Redaction rules of a workspace."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint

from apps.accounts.models import Role, User, Workspace, WorkspaceModel, WorkspaceQuerySet


class RuleVersion(models.Model):
    """Counts changes to a workspace's rules, so that processes know when to reload them. Without a row, there has never been a rule."""

    workspace = models.OneToOneField(Workspace, on_delete=models.CASCADE, primary_key=True, related_name="+")
    number = models.PositiveIntegerField(default=0)


class RedactionRule(WorkspaceModel):
    """What is replaced by a marker before it's stored: what a named detector finds, or what a pattern matches."""

    visible_from: ClassVar[Role] = Role.OWNER

    name = models.CharField(max_length=40, help_text="The name shown in the marker.")
    detector = models.CharField(max_length=20, blank=True)
    pattern = models.CharField(max_length=500, blank=True, help_text="RE2 regular expression.")
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    objects = WorkspaceQuerySet["RedactionRule"].as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["workspace", "name"], name="one_redaction_rule_per_name"),
            CheckConstraint(
                condition=Q(detector="") & ~Q(pattern="") | Q(pattern="") & ~Q(detector=""),
                name="redaction_rule_is_a_detector_or_a_pattern",
            ),
        ]

    def __str__(self) -> str:
        return self.name
