"""Limits how many bytes of requests and replies a gateway process holds in memory: for each workspace, and for all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from django.conf import settings

MAX_OF_ALL, MAX_OF_ONE = 16, 6
"""For all workspaces and for one, in requests of the largest size. A call takes a few times its bytes, since it's parsed and written again."""


class MemoryUse:
    """The bytes that calls in progress hold, by workspace."""

    def __init__(self) -> None:
        self.held: Counter[Hashable] = Counter()


class CallMemory:
    """The bytes that one call holds until it's over."""

    def __init__(self, use: MemoryUse) -> None:
        self._use = use
        self._bytes = 0
        self.workspace: Hashable = None

    def take(self, size: int) -> bool:
        """Whether this many more bytes are within the limits; if so, they're counted."""
        held, largest = self._use.held, settings.GATEWAY_MAX_BYTES
        if held.total() + size > MAX_OF_ALL * largest or held[self.workspace] + size > MAX_OF_ONE * largest:
            return False
        held[self.workspace] += size
        self._bytes += size
        return True

    def release(self) -> None:
        held = self._use.held
        held[self.workspace] -= self._bytes
        if held[self.workspace] <= 0:
            del held[self.workspace]
        self._bytes = 0
