"""Deletes old deliveries, and removed destinations."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.utils.timezone import now

from apps.webhooks.models import Delivery, Destination

KEPT_FOR = timedelta(days=14)
MOST_KEPT = 20_000
"""Maximum number of deliveries kept per destination. Older ones are deleted early."""
AT_A_TIME = 5000


def forget_deliveries() -> None:
    """Delete finished deliveries that are old or excess, and destinations that were removed long ago."""
    over = Delivery.objects.exclude(state=Delivery.State.WAITING)
    _remove(over.filter(created_at__lt=now() - KEPT_FOR).values_list("pk", flat=True))
    for destination in Destination.objects.order_by("pk").iterator():
        oldest_kept = (
            destination.deliveries.order_by("-pk").values_list("pk", flat=True)[MOST_KEPT - 1 : MOST_KEPT].first()
        )
        if oldest_kept is not None:
            _remove(over.filter(destination=destination, pk__lt=oldest_kept).values_list("pk", flat=True))
    Destination.objects.filter(removed_at__lt=now() - KEPT_FOR).delete()


def _remove(pks: QuerySet[Delivery, UUID]) -> None:
    """In batches, so that no lock is held for long."""
    while some := list(pks[:AT_A_TIME]):
        Delivery.objects.filter(pk__in=some).delete()
