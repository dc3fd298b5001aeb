"""What the API's views of queues share."""

from __future__ import annotations

from uuid import UUID

from django.shortcuts import get_object_or_404
from rest_framework import serializers

from apps.annotation.models import Queue
from apps.common.api import MemberView


class QueueSerializer(serializers.ModelSerializer[Queue]):
    """A queue of pairs or runs to judge. `asks`: what a judgement answers beside the main thing."""

    class Meta:
        model = Queue
        fields = [
            *("id", "name", "kind", "state", "order", "overlap", "lease_seconds", "skipped_come_back"),
            *("item_count", "items_expected", "asks", "created_at"),
        ]
        read_only_fields = fields


class OfQueue(MemberView):
    """A view of something of one queue; which of them there are depends on who asks."""

    def queue(self, queue_id: UUID) -> Queue:
        """The queue. Raises Http404 where this member may not know of it."""
        return get_object_or_404(Queue.objects.visible_to(self.member), pk=queue_id)
