"""Episodes of training runs and of rollouts. `client.serve_agent` leases and plays them with an agent of your own."""

from __future__ import annotations

from http import HTTPStatus
from typing import Unpack

from retrace.core.flow import Flow
from retrace.core.operations import C, Resource, operation
from retrace.core.replies import parsed
from retrace.core.request import Request
from retrace.models.episodes import Episode, Lease


class Episodes(Resource[C]):
    @operation
    def lease(self, **wanted: Unpack[Lease]) -> Flow[Episode | None]:
        """Take the next episode, or None where nothing waits now. Whoever is silent for too long loses it to another runner."""
        request = Request("POST", "/episodes/lease", body=dict(wanted))
        reply = yield from self._exchange(request)
        return None if reply.status == HTTPStatus.NO_CONTENT else parsed(request, reply, Episode)
