"""Received traces, their spans, and the trajectories made from them."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Index, UniqueConstraint

from apps.accounts.models import WorkspaceModel, WorkspaceQuerySet
from apps.trajectories.models import Trajectory


class TraceQuerySet(WorkspaceQuerySet["Trace"]):
    def due_at(self, moment: datetime) -> Self:
        """Traces that have ended, or that have received nothing for long enough to count as complete."""
        return self.filter(due_at__lte=moment)

    def with_spans(self) -> Self:
        return self.filter(closed_at=None)


class Trace(WorkspaceModel):
    """One OpenTelemetry trace. Its spans arrive in any order, in several requests, and possibly more than once."""

    class State(models.TextChoices):
        ARRIVING = "arriving", "Arriving"
        STORED = "stored", "Stored"
        PASSED_OVER = "passed_over", "No model call"
        REFUSED = "refused", "Refused"

    trace_id = models.CharField(max_length=32, help_text="Hexadecimal.")
    name = models.CharField(
        max_length=200, blank=True, help_text="Name of the root span or, until it arrives, of the first span received."
    )
    service = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=12, choices=State.choices, default=State.ARRIVING)
    span_count = models.PositiveIntegerField(default=0)
    model_calls = models.PositiveIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0, help_text="Total size of its spans as JSON, in bytes.")
    has_root = models.BooleanField(default=False, help_text="The root span has ended.")
    changed_at = models.DateTimeField(help_text="When the last new span arrived.")
    due_at = models.DateTimeField(null=True, help_text="When it's converted to trajectories if no more spans arrive.")
    closed_at = models.DateTimeField(null=True, help_text="When its spans were deleted; later spans are rejected.")
    problem = models.TextField(
        blank=True, help_text="Why there is no trajectory, or why an existing one wasn't updated."
    )

    objects = TraceQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["workspace", "trace_id"], name="one_trace_per_id")]
        indexes = [
            Index(fields=["workspace", "-id"], name="trace_newest"),
            Index(fields=["due_at"], condition=models.Q(due_at__isnull=False), name="trace_due"),
            Index(fields=["changed_at"], name="trace_by_change"),
            # Lets a workspace's stored bytes be summed by an index-only scan.
            Index(fields=["workspace", "size"], condition=models.Q(closed_at=None), name="trace_with_spans"),
        ]

    def __str__(self) -> str:
        return self.name or self.trace_id


class Source(models.Model):
    """The resource and scope of a trace's spans."""

    pk = models.CompositePrimaryKey("trace_id", "digest")
    trace = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="sources", db_index=False)
    digest = models.BinaryField(max_length=16)
    body = models.BinaryField(help_text="JSON, zstd-compressed.")


class Span(models.Model):
    """A span as received. Duplicates are merged; if a span was sent while in progress, the version with the later end is kept."""

    pk = models.CompositePrimaryKey("trace_id", "span_id")
    trace = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="spans", db_index=False)
    span_id = models.CharField(max_length=16, help_text="Hexadecimal.")
    ended = models.BigIntegerField(help_text="End time in nanoseconds since 1970; 0 if not given.")
    source_digest = models.BinaryField(max_length=16)
    body = models.BinaryField(help_text="OTLP JSON, zstd-compressed.")


class TracePart(models.Model):
    """A chat in a trace, and the trajectory made from it."""

    trace = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="parts")
    trajectory = models.OneToOneField(Trajectory, on_delete=models.CASCADE, related_name="trace_part")
    span_ids = ArrayField(
        models.CharField(max_length=16),
        help_text="Ids of its model calls' spans, which identify the part when more spans arrive.",
    )
    content_hash = models.BinaryField(max_length=32, help_text="Hash of the chat in the latest version of the trace.")
