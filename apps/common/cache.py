"""The cache in Valkey, with one client per process."""

from typing import Any, ClassVar

from django.core.cache import cache
from django.core.cache.backends.redis import RedisCache, RedisCacheClient
from redis.exceptions import RedisError


class KeptClient(RedisCacheClient):
    """Django creates a client per command and, under ASGI, a connection per request, which costs two milliseconds each.

    A redis client is thread-safe and its pool detects forks, so one per address is kept.
    """

    _kept: ClassVar[dict[str, Any]] = {}

    def get_client(self, key: Any = None, *, write: bool = False) -> Any:
        address = self._servers[self._get_connection_pool_index(write)]  # type: ignore[attr-defined]  # not in the stubs
        client = self._kept.get(address)
        if client is None:
            client = self._kept.setdefault(address, super().get_client(key, write=write))
        return client


class ValkeyCache(RedisCache):
    """Django's cache backend with the persistent client."""

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._class = KeptClient


def recall(key: str) -> Any:
    """A value stored by `remember`; None if it's missing or Valkey is down. For values that can be recomputed."""
    try:
        return cache.get(key)
    except RedisError:
        return None


def remember(key: str, value: Any, *, seconds: int) -> None:
    """Cache a value that can be recomputed; failures are ignored."""
    try:
        cache.set(key, value, seconds)
    except RedisError:
        return
