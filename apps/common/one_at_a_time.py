"""Lets only one worker at a time do a piece of periodic work: if it's slow, its repetitions would otherwise occupy all workers.

With an advisory lock of the database, a suspended worker would stop the work for good; here another worker begins after a time limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from django.core.cache import cache


@contextmanager
def one_at_a_time(name: str, *, seconds: int) -> Iterator[bool]:
    """Yields whether to do the work now: nobody else is doing it, or they began more than `seconds` ago. It must be safe to do twice concurrently."""
    key, token = f"at-work:{name}", uuid4().hex
    is_acquired = bool(cache.add(key, token, seconds))
    try:
        yield is_acquired
    finally:
        if is_acquired and cache.get(key) == token:
            cache.delete(key)
