"""Deletes old deliveries, and removed destinations."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.utils.timezone import now

from apps.webhooks.models import Delivery, Destination

RETENTION = timedelta(days=14)
MAX_KEPT = 20_000
"""Maximum number of deliveries kept per destination. Older ones are deleted early."""
BATCH_SIZE = 5000


def delete_old_deliveries() -> None:
    """Delete finished deliveries that are old or excess, and destinations that were removed long ago."""
    finished = Delivery.objects.exclude(state=Delivery.State.WAITING)
    _delete_in_batches(finished.filter(created_at__lt=now() - RETENTION).values_list("pk", flat=True))
    for destination in Destination.objects.order_by("pk").iterator():
        oldest_kept = (
            destination.deliveries.order_by("-pk").values_list("pk", flat=True)[MAX_KEPT - 1 : MAX_KEPT].first()
        )
        if oldest_kept is not None:
            _delete_in_batches(
                finished.filter(destination=destination, pk__lt=oldest_kept).values_list("pk", flat=True)
            )
    Destination.objects.filter(removed_at__lt=now() - RETENTION).delete()


def _delete_in_batches(pks: QuerySet[Delivery, UUID]) -> None:
    """In batches, so that no lock is held for long."""
    while batch := list(pks[:BATCH_SIZE]):
        Delivery.objects.filter(pk__in=batch).delete()
