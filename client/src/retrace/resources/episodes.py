"""Episodes of training runs and rollouts. `client.serve_agent` leases them and plays them with your agent."""

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
        """Lease the next episode; None if there is none now. A runner that is silent for too long loses it to another."""
        request = Request("POST", "/episodes/lease", body=dict(wanted))
        reply = yield from self._exchange(request)
        return None if reply.status == HTTPStatus.NO_CONTENT else parsed(request, reply, Episode)
