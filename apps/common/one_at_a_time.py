"""Periodic work that one worker does at a time, since several that begin one after another would take all workers if it's slow.

The database's advisory locks would let a suspended worker stop the work for good: here, after a time, another one begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from django.core.cache import cache


@contextmanager
def one_at_a_time(name: str, *, seconds: int) -> Iterator[bool]:
    """Yields whether to do the work now: nobody else does, or they began more than `seconds` ago. It must be safe to do twice at once."""
    key, token = f"at-work:{name}", uuid4().hex
    is_acquired = bool(cache.add(key, token, seconds))
    try:
        yield is_acquired
    finally:
        if is_acquired and cache.get(key) == token:
            cache.delete(key)
