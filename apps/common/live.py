"""Live pages: rendered partials sent to everyone viewing an object.

A group is named `<noun>.<id>`. Senders render the same partial that the page includes; `static/js/core/live.js` swaps it in by
its id. Messages aren't stored: a page that reconnects fetches its state again.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.layers import get_channel_layer

from apps.common.text_encoding import escaped

if TYPE_CHECKING:
    from apps.accounts.models import Membership

logger = logging.getLogger(__name__)

NOT_FOUND = 4404
"""Close code if the visitor may not see the subject; pages don't reconnect."""

SESSION_OVER = 4401
"""Close code if the session ended; pages reconnect as whoever is signed in then."""

NOTHING_TO_SAY = 4400
"""Close code if the client sends messages: these sockets are server-to-client only."""

CHECK_EVERY_SECONDS = 30.0
"""Seconds after which a connection's access is checked again."""


@contextmanager
def best_effort(subject: object) -> Iterator[None]:
    """Context for code that only updates live pages, which also poll.

    Errors are logged, not raised: a missing channel layer, a database restart, or a failing template mustn't stop the actual work.
    """
    try:
        yield
    except Exception:
        logger.warning("%s: could not update the open pages", subject, exc_info=True)


def send(group: str, html: str) -> None:
    """Send a rendered partial (its root element has an id) to everyone in `group`."""
    layer = get_channel_layer()
    assert layer is not None, "CHANNEL_LAYERS is always configured"
    async_to_sync(layer.group_send)(group, {"type": "partial", "html": escaped(html)})


def recheck_access(membership_pk: int) -> None:
    """Make this membership's connections recheck their access, after the membership changed or was removed, or a session ended."""
    layer = get_channel_layer()
    assert layer is not None, "CHANNEL_LAYERS is always configured"
    with best_effort(membership_pk):
        async_to_sync(layer.group_send)(_group_of_member(membership_pk), {"type": "access.changed"})


def _group_of_member(membership_pk: int) -> str:
    return f"member.{membership_pk}"


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """Joins one group, if the visitor may see its subject. Subclasses define the group."""

    group: str | None = None
    is_open = False
    _access_checked_at = 0.0

    def find_group(self, member: "Membership") -> str | None:
        """The group of this connection, or None if `member` may not see its subject. Runs in a thread."""
        raise LookupError(f"{type(self).__name__} does not say which group it serves.")

    async def connect(self) -> None:
        member = self.scope["member"]
        self.group = await database_sync_to_async(self.find_group)(member) if member else None
        if self.group is None:
            await self.close(code=NOT_FOUND)
            return
        for group in self._groups:
            await self.channel_layer.group_add(group, self.channel_name)
        if await self._may_still_see():  # a removal just now was announced before this connection joined
            await self.accept()
            self.is_open = True

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Pages send nothing. Close connections that do, so that they can't keep a process busy."""
        await self.close(code=NOTHING_TO_SAY)

    async def disconnect(self, code: int) -> None:
        for group in self._groups:
            await self.channel_layer.group_discard(group, self.channel_name)

    @property
    def _groups(self) -> list[str]:
        return [self.group, _group_of_member(self.scope["member"].pk)] if self.group else []

    async def access_changed(self, event: dict[str, str]) -> None:
        """Handles `recheck_access`."""
        await self._may_still_see()

    async def _may_still_see(self) -> bool:
        """Whether this connection still has access; otherwise it's closed."""
        self._access_checked_at = time.monotonic()
        if await database_sync_to_async(self.scope["session_is_over"])():
            await self.close(code=SESSION_OVER)
        elif await database_sync_to_async(self._find_group_again)() != self.group:
            await self.close(code=NOT_FOUND)
        else:
            return True
        self.is_open = False
        return False

    def _find_group_again(self) -> str | None:
        before = self.scope["member"]
        member = type(before).objects.filter(pk=before.pk).first()
        return self.find_group(member) if member else None

    async def partial(self, event: dict[str, str]) -> None:
        """Handles `send`. Expiring sessions aren't announced, and `recheck_access` messages can be lost, so access is also rechecked here periodically."""
        if not self.is_open:
            return
        if time.monotonic() - self._access_checked_at < CHECK_EVERY_SECONDS or await self._may_still_see():
            await self.send(text_data=event["html"])


class NoSuchSocket(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    """Consumer for unknown websocket addresses."""

    async def connect(self) -> None:
        await self.close(code=NOT_FOUND)
