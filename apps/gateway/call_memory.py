"""Limits how many bytes of requests and replies a gateway process holds in memory: for each workspace, each person, and for all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from django.conf import settings

MAX_OF_ALL, MAX_OF_ONE = 16, 6
"""For all workspaces, and for one or for one person, who may have many workspaces, in requests of the largest size. A call takes a few times its bytes,
since it's parsed and written again."""
RESERVED, SMALL = 4, 1 / 16
"""How much more is there for workspaces that hold little, and what is little: so that a few people with many calls don't leave nothing for others."""


PIECES = 8192
"""Small pieces, of which a stream has very many, are counted together: at least this fraction of the largest request at a time."""


class MemoryUse:
    """The bytes that calls in progress hold, by workspace and by person."""

    def __init__(self) -> None:
        self.held: Counter[Hashable] = Counter()
        self.total = 0


class CallMemory:
    """The bytes that one call holds until it's over."""

    def __init__(self, use: MemoryUse) -> None:
        self._use = use
        self._bytes = 0
        self._spare = 0
        """What is counted, but not held yet."""
        self.holders: tuple[Hashable, ...] = ()
        """The call's workspace, and the person with whose token or session it's made."""

    def take(self, size: int) -> bool:
        """Whether this many more bytes are within the limits; if so, they're counted."""
        if size > self._spare:
            counted = max(size, settings.GATEWAY_MAX_BYTES // PIECES)
            if not self._count(counted):
                return False
            self._spare += counted
        self._spare -= size
        return True

    def _count(self, size: int) -> bool:
        use, largest = self._use, settings.GATEWAY_MAX_BYTES
        most = max((use.held[holder] + size for holder in self.holders), default=size)
        if most > MAX_OF_ONE * largest:
            return False
        if use.total + size > (MAX_OF_ALL + (RESERVED if most <= SMALL * largest else 0)) * largest:
            return False
        for holder in self.holders:
            use.held[holder] += size
        use.total += size
        self._bytes += size
        return True

    def release(self) -> None:
        use = self._use
        use.total -= self._bytes
        for holder in self.holders:
            use.held[holder] -= self._bytes
            if use.held[holder] <= 0:
                del use.held[holder]
        self._bytes = self._spare = 0
