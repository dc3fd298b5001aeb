"""Stored responses of idempotent API requests."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import UniqueConstraint
from django.db.models.functions import Now
from django.utils.timezone import now

LIFETIME = timedelta(days=1)


class AnsweredRequestQuerySet(models.QuerySet["AnsweredRequest"]):
    def expired(self) -> AnsweredRequestQuerySet:
        return self.filter(created_at__lt=now() - LIFETIME)


class AnsweredRequest(models.Model):
    """A request with an `Idempotency-Key` and its response. Written in the request's own transaction."""

    membership = models.ForeignKey("accounts.Membership", on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of the URL and the request body.")
    status = models.PositiveSmallIntegerField()
    body = models.TextField(help_text="JSON, stored as text because JSON columns can't hold every character.")
    location = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now())

    objects = AnsweredRequestQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["membership", "key"], name="one_answer_per_key")]
        indexes = [models.Index(fields=["created_at"], name="answered_oldest")]
