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

    trace_id = models.CharField(max_length=32, help_text="In hexadecimal.")
    name = models.CharField(max_length=200, blank=True, help_text="Of its root span; until that comes, of its first.")
    service = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=12, choices=State.choices, default=State.ARRIVING)
    span_count = models.PositiveIntegerField(default=0)
    model_calls = models.PositiveIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes of its spans as JSON.")
    has_root = models.BooleanField(default=False, help_text="Its root span has ended.")
    changed_at = models.DateTimeField(help_text="When the last new span came.")
    due_at = models.DateTimeField(null=True, help_text="When it becomes trajectories unless more comes.")
    closed_at = models.DateTimeField(null=True, help_text="When its spans were removed; it takes no more.")
    problem = models.TextField(blank=True, help_text="Why it is no trajectory, or why a trajectory stays as it was.")

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
    span_id = models.CharField(max_length=16, help_text="In hexadecimal.")
    ended = models.BigIntegerField(help_text="Nanoseconds since 1970; 0 where it is not said.")
    source_digest = models.BinaryField(max_length=16)
    body = models.BinaryField(help_text="As OTLP's JSON, zstd-compressed.")


class TracePart(models.Model):
    """A chat in a trace, and the trajectory made from it."""

    trace = models.ForeignKey(Trace, on_delete=models.CASCADE, related_name="parts")
    trajectory = models.OneToOneField(Trajectory, on_delete=models.CASCADE, related_name="trace_part")
    span_ids = ArrayField(models.CharField(max_length=16), help_text="The model calls of it: what knows it again.")
    content_hash = models.BinaryField(max_length=32, help_text="Of what the trace said last.")
