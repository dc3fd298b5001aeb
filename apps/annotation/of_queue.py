"""What every API view of something in one queue shares."""

from __future__ import annotations

from uuid import UUID

from django.shortcuts import get_object_or_404

from apps.annotation.models import Queue
from apps.common.api import MemberView


class OfQueue(MemberView):
    """A view of something of one queue; which of them there are depends on who asks."""

    def queue(self, queue_id: UUID) -> Queue:
        """The queue. Raises Http404 where this member may not know of it."""
        return get_object_or_404(Queue.objects.visible_to(self.member), pk=queue_id)
