"""How much of requests and replies a gateway process holds in memory: of all workspaces together, and less of each one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from django.conf import settings

OF_ALL, OF_ONE = 16, 6
"""In requests of the largest size. A call takes a few times its bytes, since it's parsed and written again."""


class Room:
    """The bytes that calls under way hold."""

    def __init__(self) -> None:
        self.held: Counter[Hashable] = Counter()


class Account:
    """What one call holds, until it's over."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._bytes = 0
        self.workspace: Hashable = None

    def take(self, size: int) -> bool:
        """Whether there's room for so many bytes more."""
        held, largest = self._room.held, settings.GATEWAY_MAX_BYTES
        if held.total() + size > OF_ALL * largest or held[self.workspace] + size > OF_ONE * largest:
            return False
        held[self.workspace] += size
        self._bytes += size
        return True

    def release(self) -> None:
        held = self._room.held
        held[self.workspace] -= self._bytes
        if held[self.workspace] <= 0:
            del held[self.workspace]
        self._bytes = 0
