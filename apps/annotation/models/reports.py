"""What was measured of a queue, kept so that pages need not read all its judgments."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from apps.annotation.models.queues import Queue


class QualityReport(models.Model):
    """The latest measurement of a queue's judgments, and what it is based on."""

    queue = models.OneToOneField(Queue, on_delete=models.CASCADE, primary_key=True, related_name="report")
    basis = models.CharField(
        max_length=100, help_text="The judgments that stood then; another basis makes it out of date."
    )
    figures = models.JSONField(help_text="As `measuring.measure` returns them.")
    measured_at = models.DateTimeField(db_default=Now())
    took_seconds = models.FloatField()
