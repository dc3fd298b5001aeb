"""Shared by the API views of queues."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from rest_framework import serializers

from apps.accounts.models import Membership
from apps.annotation.kinds.blindness import COUNTS, may_know_counts
from apps.annotation.models import Queue
from apps.common.api import MemberView


class QueueSerializer(serializers.ModelSerializer[Queue]):
    """A queue of pairs or trajectories to judge. `asks`: what a judgment must answer beyond the main question.

    Annotators don't see `overlap`, `item_count`, and `items_expected`, which would reveal how many items are gold.
    """

    class Meta:
        model = Queue
        fields = [
            *("id", "name", "kind", "state", "order", "overlap", "lease_seconds", "skipped_come_back"),
            *("item_count", "items_expected", "asks", "created_at"),
        ]
        read_only_fields = [name for name in fields if name not in COUNTS]  # the schema marks these as required
        extra_kwargs = {name: {"required": False} for name in COUNTS}

    def to_representation(self, queue: Queue) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(queue)
        member: Membership = self.context["member"]
        return (
            shown if may_know_counts(member) else {name: value for name, value in shown.items() if name not in COUNTS}
        )


class OfQueue(MemberView):
    """Base of the views of one queue. Which queues are visible depends on the member."""

    def queue(self, queue_id: UUID) -> Queue:
        """The queue. Raises Http404 if this member may not see it."""
        return get_object_or_404(Queue.objects.visible_to(self.member), pk=queue_id)
