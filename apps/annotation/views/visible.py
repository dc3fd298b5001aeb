"""Access to queues on pages."""

from uuid import UUID

from django.shortcuts import get_object_or_404

from apps.annotation.models import Queue
from apps.common.http import HtmxRequest


def visible_queue(request: HtmxRequest, queue_id: UUID) -> Queue:
    """The queue. Raises Http404 if this member may not see it."""
    return get_object_or_404(Queue.objects.visible_to(request.member), pk=queue_id)
