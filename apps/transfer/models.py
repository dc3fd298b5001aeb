"""Exports of a workspace, and imports of such archives. Workers carry out both."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, Index, Q

from apps.accounts.models import Role, User
from apps.jobs.models import Headway, Job, JobQuerySet, JobState


class TransferJob(Job):
    """Fields common to exports and imports."""

    visible_from = Role.OWNER

    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.WAITING)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    file = models.CharField(max_length=400, blank=True, help_text="The archive's name in the storage; empty: deleted.")
    size = models.BigIntegerField(default=0, help_text="Bytes of the archive.")
    sha256 = models.CharField(max_length=64, blank=True, help_text="Of the archive.")
    rows_done = models.BigIntegerField(default=0)
    rows_expected = models.BigIntegerField(default=0)
    counts = models.JSONField(default=dict, help_text="Rows of each table, by its name in the archive.")

    class Meta:
        abstract = True

    @property
    def headway(self) -> Headway:
        return Headway(self.rows_done, self.rows_expected, "rows")

    @property
    def resumes_from(self) -> str:
        return "the beginning"


class ExportQuerySet(JobQuerySet["Export"]):
    """Typed queryset of exports."""


class Export(TransferJob):
    """An archive of everything in a workspace, deleted when it expires."""

    include_weights = models.BooleanField(default=False, help_text="Whether the models of training runs are in it.")
    expires_at = models.DateTimeField(null=True, help_text="When the archive is deleted.")

    objects = ExportQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(state__in=JobState.values), name="export_state_is_known"),
        ]
        indexes = [
            Index(fields=["workspace", "-id"], name="export_newest"),
            Index(fields=["expires_at"], condition=~Q(file=""), name="export_to_expire"),
            Index(fields=["leased_until"], condition=Q(state__in=["waiting", "running"]), name="export_leases"),
        ]

    def __str__(self) -> str:
        return f"Export of {self.workspace}"


class ImportQuerySet(JobQuerySet["Import"]):
    """Typed queryset of imports of archives."""


class Import(TransferJob):
    """The import of an archive into an empty workspace, completely or not at all."""

    filename = models.CharField(max_length=300)
    people = models.JSONField(
        default=list, help_text="Name, e-mail address, and role of those who aren't members here: whom to invite."
    )

    objects = ImportQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(state__in=JobState.values), name="archive_import_state_is_known"),
        ]
        indexes = [
            Index(fields=["workspace", "-id"], name="archive_import_newest"),
            Index(fields=["leased_until"], condition=Q(state__in=["waiting", "running"]), name="archive_import_leases"),
        ]

    def __str__(self) -> str:
        return f"Import of {self.filename}"
