"""Per-workspace concurrency limits in the event loop, so that one workspace can't occupy all threads."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from weakref import WeakValueDictionary


class Turns:
    """Semaphores by key, kept while somebody holds or waits for one."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._semaphores: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, key: Hashable) -> asyncio.Semaphore:
        """The semaphore of a key. Enter it with `async with` immediately."""
        return self._semaphores.setdefault(key, asyncio.Semaphore(self._at_once))
